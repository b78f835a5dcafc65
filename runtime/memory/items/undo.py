"""Takes back what one run wrote to the memory of its agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

from runtime.memory.item import Item, Provenance, SaidBy, retraction_uri
from runtime.memory.items.validity import Validity, validity_of
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import Scan, position_of

Outcome = Literal["deleted", "retracted", "replaced", "unchanged"]
"""`deleted`, or `retracted` in a store that cannot delete; `replaced`: another run or a person has replaced it
meanwhile, so it is left as it is; `unchanged`: it was withdrawn before."""

_WITHDRAWN: Final = ("deleted", "retracted")
_AT_ONCE: Final = 500
"""Retractions that are appended together: a store writes them as a whole."""


class UndoneItem(NamedTuple):
    """Outcome of an undo for one item of the run. `replaced_by`: the id of the item that replaced it meanwhile."""

    item: Item
    outcome: Outcome
    replaced_by: str | None = None


async def items_of_run(
    memory: OpenMemory, user_id: str, run_id: str, *, agent_id: str | None = None, began: datetime | None = None
) -> list[Item]:
    """Return the items that the run of this user wrote, also those that were retracted, but no retractions.

    `agent_id`: only those of this agent; an item of a collection has the name of that. Without it, files that cannot be
    read are left out. `began`: the start of the run; without it, a store of files reads all logs and records. Raises
    StoreError.
    """
    wanted = Scan(agent_id=agent_id, user_id=user_id, run_id=run_id, since=began)
    return [item async for item in memory.store.scan(wanted) if item.retracts is None]


async def undo_items(
    memory: OpenMemory,
    user_id: str,
    run_id: str,
    now: datetime,
    *,
    agent_id: str | None = None,
    began: datetime | None = None,
    said_by: SaidBy = "person",
) -> list[UndoneItem]:
    """Withdraw what the run of this user wrote, together; what it had replaced is valid again. Returns the items,
    newest first.

    `agent_id`, `began`: see `items_of_run`. `said_by`: who undoes. May be interrupted and repeated. Raises StoreError.
    """
    done: list[UndoneItem] = []
    settled: set[str] = set()
    while True:
        # Read again afterwards: another process may have changed the ids of items meanwhile.
        written = await items_of_run(memory, user_id, run_id, agent_id=agent_id, began=began)
        left = [item for item in written if item.memory_id not in settled]
        if not left:
            return done
        undone = await _undo(memory, left, now, said_by)
        done += undone
        settled.update(each.item.memory_id for each in undone if each.outcome != "deleted")


async def foresee_undo(
    memory: OpenMemory, user_id: str, run_id: str, *, agent_id: str | None = None, began: datetime | None = None
) -> list[UndoneItem]:
    """Return the outcomes that `undo_items` would have now. Raises StoreError."""
    return await _foresee(memory, await items_of_run(memory, user_id, run_id, agent_id=agent_id, began=began))


async def _foresee(memory: OpenMemory, items: Sequence[Item]) -> list[UndoneItem]:
    """Return the outcomes of an undo of these items of one run, newest first."""
    known = await validity_of(memory, items)
    gone: Outcome = "deleted" if "delete" in memory.store.capabilities else "retracted"
    found = []
    for item in sorted(items, key=position_of, reverse=True):
        validity = known[item.memory_id]
        if validity.replaced_by is not None and not _is_replaced_by_others(item, known):
            # The items of the run that replace it are withdrawn with it.
            validity = validity._replace(replaced_by=None)
        found.append(_kept_item(item, validity) or UndoneItem(item, gone))
    return found


def _is_replaced_by_others(item: Item, known: Mapping[str, Validity]) -> bool:
    """True if the item, or one of the run's items in the chain that replaced it, was replaced by an item that the run
    did not write. `known`: the validity of all items of the run."""
    seen: set[str] = set()
    while item.memory_id in known and item.memory_id not in seen:
        seen.add(item.memory_id)
        newer = known[item.memory_id].replaced_by
        if newer is None:
            return False
        item = newer
    return True


def _kept_item(item: Item, validity: Validity) -> UndoneItem | None:
    """Return why the item is left as it is; None if it can be withdrawn."""
    if validity.retracted:
        return UndoneItem(item, "unchanged")
    if validity.replaced_by is not None:
        return UndoneItem(item, "replaced", validity.replaced_by.memory_id)
    return None


async def _undo(memory: OpenMemory, items: Sequence[Item], now: datetime, said_by: SaidBy) -> list[UndoneItem]:
    foreseen = await _foresee(memory, items)
    wanted = [each.item for each in foreseen if each.outcome in _WITHDRAWN]
    withdrawn = await _withdraw(memory, wanted, now, said_by)
    return [
        UndoneItem(each.item, "unchanged")
        if each.outcome in _WITHDRAWN and each.item.memory_id not in withdrawn
        else each
        for each in foreseen
    ]


async def _withdraw(memory: OpenMemory, items: Sequence[Item], now: datetime, said_by: SaidBy) -> set[str | None]:
    """Delete or retract these items; return the ids of those for which nobody had done it meanwhile."""
    if "delete" in memory.store.capabilities:
        there = await memory.forget_each(items)
        return {item.memory_id for item, was_there in zip(items, there, strict=True) if was_there}
    found: set[str | None] = set()
    for begin in range(0, len(items), _AT_ONCE):
        retractions = [_retraction(item, now, said_by) for item in items[begin : begin + _AT_ONCE]]
        found.update(each.retracts for each in await memory.store.append(retractions))
    return found


def _retraction(item: Item, now: datetime, said_by: SaidBy) -> Item:
    return Item(
        project_id=item.project_id,
        agent_id=item.agent_id,
        user_id=item.user_id,
        memory_type="semantic",
        timestamp=now,
        source_uri=retraction_uri(item.memory_id),
        text=f"Retracts the item {item.memory_id}",
        provenance=Provenance(said_by=said_by),
        subject=item.subject,
        retracts=item.memory_id,
    )
