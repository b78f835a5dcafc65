"""What stores say they added, until it is put into the index; and how far each part that grows had come lately."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from runtime.memory.item import Item
from runtime.memory.store_types import Append, Part

MOST: Final = 10_000
"""Items that may wait; when there are more, their parts are read instead."""
REMEMBERED: Final = 64
"""Revisions of a part that grew that are remembered, and parts of which they are."""


class ChangeFeed:
    """Growth by agent, in the order in which it was handed over."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, list[Append]] = OrderedDict()
        self._items = 0
        self._passed: OrderedDict[str, deque[str]] = OrderedDict()

    @property
    def agents(self) -> tuple[str, ...]:
        """Whose parts grew."""
        return tuple(self._waiting)

    def add(self, growth: Append) -> set[str]:
        """Keep this until it is taken. Empty, or whose parts must be read because there was too much."""
        if self._items + len(growth.items) > MOST:
            dropped = {growth.part.agent_id, *self._waiting}
            self._waiting.clear()
            self._items = 0
            return dropped
        self._waiting.setdefault(growth.part.agent_id, []).append(growth)
        self._items += len(growth.items)
        return set()

    def take(self, agent: str) -> list[tuple[str | None, Part, list[Item]]]:
        """The agent's growth, what follows on one another as one: the revision before, the part after, the items."""
        growth = self._waiting.pop(agent, [])
        for each in growth:
            self._items -= len(each.items)
            self._remember(each.part)
        return _joined(growth)

    def is_past(self, part: Part, held: str | None) -> bool:
        """Whether the revision that the index has `held` since came after that of the part."""
        passed = list(self._passed.get(part.name, ()))
        return held in passed and part.revision in passed[: passed.index(held)]

    def grows(self, name: str) -> bool:
        """Whether the part grew lately."""
        return name in self._passed

    def forget(self, name: str | None = None) -> None:
        """The part was read whole, or is gone; without a name every part."""
        if name is None:
            self._passed.clear()
        else:
            self._passed.pop(name, None)

    def _remember(self, part: Part) -> None:
        self._passed.setdefault(part.name, deque(maxlen=REMEMBERED)).append(part.revision)
        self._passed.move_to_end(part.name)
        if len(self._passed) > REMEMBERED:
            self._passed.popitem(last=False)


def _joined(growth: Sequence[Append]) -> list[tuple[str | None, Part, list[Item]]]:
    found: list[tuple[str | None, Part, list[Item]]] = []
    last: dict[str, int] = {}
    for part, before, items in growth:
        at = last.get(part.name)
        if at is not None and found[at][1].revision == before:
            found[at] = found[at][0], part, [*found[at][2], *items]
        else:
            last[part.name] = len(found)
            found.append((before, part, list(items)))
    return found
