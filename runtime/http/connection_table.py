"""Eviction when all connections are in use: from the address with most connections, the least needed one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

C = TypeVar("C")
"""A connection."""


class AddressGroup(Generic[C]):
    """The connections of one address. A connection in neither table is working, and is not evicted."""

    __slots__ = ("idle", "key", "size", "waiting")

    def __init__(self, key: bytes | None) -> None:
        self.key = key
        self.size = 0
        # Ordered: those that have been in this state longest come first.
        self.idle: dict[C, None] = {}
        self.waiting: dict[C, None] = {}

    def rest(self, connection: C) -> None:
        """Record that it has been answered, and waits for its next request."""
        self.waiting.pop(connection, None)
        self.idle[connection] = None

    def wait(self, connection: C) -> None:
        """Record that it waits for its peer from now on: to send a head or a body, or to read its answers."""
        self.idle.pop(connection, None)
        self.waiting.pop(connection, None)
        self.waiting[connection] = None

    def work(self, connection: C) -> None:
        """Record that it does not wait for its peer."""
        if self.idle.pop(connection, connection) is not None:
            self.waiting.pop(connection, None)


class ConnectionTable(Generic[C]):
    """At most `most` connections, each with its address. When full, evicts a connection of the address that has
    most: the longest idle, else the one waiting longest for its peer. So an attacker evicts only its own
    connections."""

    def __init__(self, most: int, evict: Callable[[C], None]) -> None:
        """`evict` closes a connection, to free its place for another one."""
        self._most = most
        self._evict = evict
        self._count = 0
        self._groups: dict[bytes | None, AddressGroup[C]] = {}
        # Groups by their number of connections, so that the largest is found without a search.
        self._by_size: dict[int, dict[AddressGroup[C], None]] = {}
        self._largest = 0

    def join(self, connection: C, key: bytes | None) -> AddressGroup[C] | None:
        """Add a connection, which waits, and return its group, that of `key`; None if there is no room, because all
        others are working."""
        if self._count >= self._most and not self._make_room():
            return None
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = AddressGroup(key)
        self._resize(group, 1)
        group.waiting[connection] = None
        return group

    def leave(self, connection: C, group: AddressGroup[C]) -> None:
        """Remove a connection. Called once for each that joined and was not evicted."""
        group.work(connection)
        self._resize(group, -1)

    def _make_room(self) -> bool:
        for size in range(self._largest, 0, -1):
            for group in self._by_size.get(size, ()):
                connection = next(iter(group.idle or group.waiting), None)
                if connection is not None:
                    self.leave(connection, group)
                    self._evict(connection)
                    return True
        return False

    def _resize(self, group: AddressGroup[C], change: int) -> None:
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
            # It was the only largest group, and still is.
            self._largest = group.size
