"""Eviction when all connections are taken: from the address that has most of them, the least needed one."""

from __future__ import annotations

from typing import Protocol


class Connection(Protocol):
    """A connection."""

    def evict(self) -> None:
        """End, so that another one has the place."""


class AddressGroup:
    """The connections of one address. Each is in one of these, or at work, and then it does not give way."""

    __slots__ = ("idle", "key", "size", "waiting")

    def __init__(self, key: bytes | None) -> None:
        self.key = key
        self.size = 0
        # The one that has been so longest first.
        self.idle: dict[Connection, None] = {}
        self.waiting: dict[Connection, None] = {}

    def rest(self, member: Connection) -> None:
        """It has been answered, and waits for its next request."""
        self.waiting.pop(member, None)
        self.idle[member] = None

    def wait(self, member: Connection) -> None:
        """It waits for its peer, from now: to send a head or a body, or to read its answers."""
        self.idle.pop(member, None)
        self.waiting.pop(member, None)
        self.waiting[member] = None

    def work(self, member: Connection) -> None:
        """It waits for nothing of its peer's."""
        if self.idle.pop(member, member) is not None:
            self.waiting.pop(member, None)


class ConnectionTable:
    """At most `most` connections, each with its address. When full, evicts a connection of the address that has
    most: the longest idle, else the one waiting longest for its peer. So an attacker evicts only its own
    connections."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._groups: dict[bytes | None, AddressGroup] = {}
        # By how many connections they have, so that the largest is at hand and not looked for.
        self._by_size: dict[int, dict[AddressGroup, None]] = {}
        self._largest = 0

    def join(self, member: Connection, key: bytes | None) -> AddressGroup | None:
        """Its group, the one of `key`, in which it waits; None when there is no room, because each of the others is
        at work."""
        if self._count >= self._most and not self._make_room():
            return None
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = AddressGroup(key)
        self._resize(group, 1)
        group.waiting[member] = None
        return group

    def leave(self, member: Connection, group: AddressGroup) -> None:
        """It is gone. Called once for each that joined and did not give way."""
        group.work(member)
        self._resize(group, -1)

    def _make_room(self) -> bool:
        for size in range(self._largest, 0, -1):
            for group in self._by_size.get(size, ()):
                member = next(iter(group.idle or group.waiting), None)
                if member is not None:
                    self.leave(member, group)
                    member.evict()
                    return True
        return False

    def _resize(self, group: AddressGroup, change: int) -> None:
        self._count += change
        if group.size:
            alike = self._by_size[group.size]
            del alike[group]
            if not alike:
                del self._by_size[group.size]
        group.size += change
        if group.size:
            self._by_size.setdefault(group.size, {})[group] = None
        else:
            del self._groups[group.key]
        if group.size > self._largest or self._largest not in self._by_size:
            # It was the only largest one, and still is.
            self._largest = group.size
