"""Takes back what one run wrote to the memory of its agent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from runtime.memory.errors import NoSuchItem
from runtime.memory.item import Item, Provenance, SaidBy, retraction_uri
from runtime.memory.items.validity import Validity, validity_of
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import Scan, position_of

Outcome = Literal["deleted", "retracted", "replaced", "unchanged"]
"""`deleted`, or `retracted` in a store that cannot delete; `replaced`: another run or a person has replaced it
meanwhile, so it is left as it is; `unchanged`: it was withdrawn before."""


class UndoneItem(NamedTuple):
    """What was done with an item that the run wrote. `replaced_by`: the id of the item that replaced it meanwhile."""

    item: Item
    outcome: Outcome
    replaced_by: str | None = None


async def items_of_run(
    memory: OpenMemory, user_id: str, run_id: str, *, agent_id: str | None = None, began: datetime | None = None
) -> list[Item]:
    """Return the items that the run of this user wrote, also those that were retracted, but no retractions.

    `agent_id`: only those of this agent; an item of a collection has the name of that. `began`: the start of the run;
    without it, a store of files reads all logs and records. Raises StoreError.
    """
    wanted = Scan(agent_id=agent_id, user_id=user_id, run_id=run_id, since=began)
    return [item async for item in memory.store.scan(wanted) if item.retracts is None]


async def undo_items(
    memory: OpenMemory,
    agent_id: str,
    user_id: str,
    run_id: str,
    now: datetime,
    *,
    began: datetime | None = None,
    said_by: SaidBy = "person",
) -> list[UndoneItem]:
    """Withdraw what the run of this agent and user wrote, newest first; what it had replaced is valid again.

    `began`: see `items_of_run`. `said_by`: who undoes. May be interrupted and repeated. Raises StoreError.
    """
    done: list[UndoneItem] = []
    settled: set[str] = set()
    while True:
        # Read again after each deletion: in a Markdown memory it may change the ids of other items.
        written = await items_of_run(memory, user_id, run_id, agent_id=agent_id, began=began)
        left = [item for item in written if item.memory_id not in settled]
        if not left:
            return done
        replaced = {item.replaces for item in left}
        item = max(left, key=lambda each: (each.memory_id not in replaced, position_of(each)))
        undone = await _undo(memory, item, now, said_by)
        done.append(undone)
        if undone.outcome != "deleted":
            settled.add(item.memory_id)


async def foresee_undo(
    memory: OpenMemory, user_id: str, run_id: str, *, began: datetime | None = None
) -> list[UndoneItem]:
    """Return what `undo_items` would do now for all agents, without doing it. Raises StoreError."""
    own = {item.memory_id: item for item in await items_of_run(memory, user_id, run_id, began=began)}
    known = await validity_of(memory, own.values())
    gone: Outcome = "deleted" if "delete" in memory.store.capabilities else "retracted"
    done = []
    for item in own.values():
        validity = known[item.memory_id]
        if validity.replaced_by is not None and not _is_replaced_by_others(item, known):
            # The items of the run that replace it go first.
            validity = validity._replace(replaced_by=None)
        done.append(_left(item, validity) or UndoneItem(item, gone))
    return done


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


def _left(item: Item, validity: Validity) -> UndoneItem | None:
    """Return why the item is left as it is; None if it can be withdrawn."""
    if validity.retracted:
        return UndoneItem(item, "unchanged")
    if validity.replaced_by is not None:
        return UndoneItem(item, "replaced", validity.replaced_by.memory_id)
    return None


async def _undo(memory: OpenMemory, item: Item, now: datetime, said_by: SaidBy) -> UndoneItem:
    left = _left(item, (await validity_of(memory, [item]))[item.memory_id])
    if left is not None:
        return left
    if "delete" not in memory.store.capabilities:
        written = await memory.store.append([_retraction(item, now, said_by)])
        return UndoneItem(item, "retracted" if written else "unchanged")
    try:
        await memory.forget(item.memory_id, item.agent_id)
    except NoSuchItem:
        # Another process deleted it meanwhile.
        return UndoneItem(item, "unchanged")
    return UndoneItem(item, "deleted")


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
