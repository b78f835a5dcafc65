"""Queue of appended items not yet indexed, and the recent revisions of each part."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from runtime.memory.item import Item
from runtime.memory.store_types import Append, Part

MOST: Final = 10_000
"""Maximum number of queued items; beyond it, their parts are read instead."""
REMEMBERED: Final = 64
"""Maximum numbers of stored revisions of a growing part, and of stored parts."""


class ChangeFeed:
    """Appends by agent, in their order."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, list[Append]] = OrderedDict()
        self._items = 0
        self._revisions: OrderedDict[str, deque[str]] = OrderedDict()

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the agents with waiting appends."""
        return tuple(self._waiting)

    def add(self, append: Append) -> set[str]:
        """Queue an append. Returns the agents to re-read if the queue overflowed, else an empty set."""
        if self._items + len(append.items) > MOST:
            dropped = {append.part.agent_id, *self._waiting}
            self._waiting.clear()
            self._items = 0
            return dropped
        self._waiting.setdefault(append.part.agent_id, []).append(append)
        self._items += len(append.items)
        return set()

    def take(self, agent: str) -> list[tuple[str | None, Part, list[Item]]]:
        """Return the agent's appends, consecutive ones joined: the revision before, the part after, the items."""
        appends = self._waiting.pop(agent, [])
        for each in appends:
            self._items -= len(each.items)
            self._remember(each.part)
        return _join_appends(appends)

    def is_past(self, part: Part, held: str | None) -> bool:
        """True if the index already has a newer revision than `part`."""
        passed = list(self._revisions.get(part.name, ()))
        return held in passed and part.revision in passed[: passed.index(held)]

    def grows(self, name: str) -> bool:
        """True if the part has grown recently."""
        return name in self._revisions

    def forget(self, name: str | None = None) -> None:
        """Forget the revisions of a part that was read whole or is gone; without a name of every part."""
        if name is None:
            self._revisions.clear()
        else:
            self._revisions.pop(name, None)

    def _remember(self, part: Part) -> None:
        self._revisions.setdefault(part.name, deque(maxlen=REMEMBERED)).append(part.revision)
        self._revisions.move_to_end(part.name)
        if len(self._revisions) > REMEMBERED:
            self._revisions.popitem(last=False)


def _join_appends(appends: Sequence[Append]) -> list[tuple[str | None, Part, list[Item]]]:
    found: list[tuple[str | None, Part, list[Item]]] = []
    last: dict[str, int] = {}
    for part, before, items in appends:
        at = last.get(part.name)
        if at is not None and found[at][1].revision == before:
            found[at] = found[at][0], part, [*found[at][2], *items]
        else:
            last[part.name] = len(found)
            found.append((before, part, list(items)))
    return found
