"""Validity of items: the newer item that replaced one, and retractions (see `succession`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from runtime.memory.item import Item
from runtime.memory.items.newest import newest
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import position_of
from runtime.memory.succession import scope_of
from runtime.search.entry import EntryFilter

_IDS: Final = 500
"""Items whose changes are asked for together."""
_PAGE: Final = 1_000
"""Changes that are read at once."""


class Validity(NamedTuple):
    """`replaced_by`: the newest item that replaces it, from whose time on it is not valid any more."""

    replaced_by: Item | None = None
    retracted: bool = False

    @property
    def current(self) -> bool:
        """True if searches find the item."""
        return self.replaced_by is None and not self.retracted


async def validity_of(memory: OpenMemory, items: Iterable[Item]) -> Mapping[str, Validity]:
    """Return the validity of items of one memory by their ids. Raises StoreError."""
    by_agent: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_agent[item.agent_id].append(item)
    found: dict[str, Validity] = {}
    for agent, own in by_agent.items():
        changes = await _changes(memory, agent, own)
        withdrawn = _retractions(await _changes(memory, agent, [each for each in changes if each.replaces is not None]))
        retracted = _retractions(changes)
        newer: dict[tuple[object, str | None], Item] = {}
        for each in sorted(changes, key=position_of):
            if each.replaces is not None and (scope_of(each), each.memory_id) not in withdrawn:
                newer[scope_of(each), each.replaces] = each
        for item in own:
            name = scope_of(item), item.memory_id
            found[item.memory_id] = Validity(newer.get(name), name in retracted)
    return found


async def newest_of_chain(memory: OpenMemory, item: Item) -> Item:
    """Return the item that replaced it, or that replaced that one, and so on; itself if nothing did. Raises
    StoreError."""
    seen = {item.memory_id}
    while True:
        newer = (await validity_of(memory, [item]))[item.memory_id].replaced_by
        if newer is None or newer.memory_id in seen:
            return item
        seen.add(newer.memory_id)
        item = newer


async def _changes(memory: OpenMemory, agent: str, items: Iterable[Item]) -> list[Item]:
    """Return the items of the agent that replace or retract one of these."""
    ids = sorted({item.memory_id for item in items})
    found: list[Item] = []
    for begin in range(0, len(ids), _IDS):
        wanted = EntryFilter(agent=agent, changes_of=frozenset(ids[begin : begin + _IDS]))
        page = await newest(memory, wanted, _PAGE)
        found += page
        while len(page) == _PAGE:
            page = await newest(memory, wanted, _PAGE, before=position_of(page[-1]))
            found += page
    return found


def _retractions(changes: Iterable[Item]) -> set[tuple[object, str | None]]:
    return {(scope_of(each), each.retracts) for each in changes if each.retracts is not None}
