"""Takes back what one run wrote to the memory of its agent."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from runtime.memory.item import Item, Provenance, SaidBy, retraction_uri
from runtime.memory.items.validity import validity_of
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import Scan, position_of

Outcome = Literal["deleted", "retracted", "replaced", "unchanged"]
"""`deleted`, or `retracted` in a store that cannot delete; `replaced`: another run or a person has replaced it
meanwhile, so it is left as it is; `unchanged`: it was retracted before."""


class UndoneItem(NamedTuple):
    """What was done with an item that the run wrote. `replaced_by`: the id of the item that replaced it meanwhile."""

    item: Item
    outcome: Outcome
    replaced_by: str | None = None


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

    `began`: the start of the run; without it, a store of files reads all logs and records. `said_by`: who undoes. May
    be interrupted and repeated. Raises StoreError.
    """
    wanted = Scan(agent_id=agent_id, user_id=user_id, run_id=run_id, since=began)
    done: list[UndoneItem] = []
    settled: set[str] = set()
    while True:
        # Read again after each deletion: in a Markdown memory it may change the ids of other items.
        written = [item async for item in memory.store.scan(wanted) if item.retracts is None]
        left = [item for item in written if item.memory_id not in settled]
        if not left:
            return done
        replaced = {item.replaces for item in left}
        item = max(left, key=lambda each: (each.memory_id not in replaced, position_of(each)))
        undone = await _undo(memory, item, now, said_by)
        done.append(undone)
        if undone.outcome != "deleted":
            settled.add(item.memory_id)


async def _undo(memory: OpenMemory, item: Item, now: datetime, said_by: SaidBy) -> UndoneItem:
    validity = (await validity_of(memory, [item]))[item.memory_id]
    if validity.retracted:
        return UndoneItem(item, "unchanged")
    if validity.replaced_by is not None:
        return UndoneItem(item, "replaced", validity.replaced_by.memory_id)
    if "delete" in memory.store.capabilities:
        await memory.forget(item.memory_id, item.agent_id)
        return UndoneItem(item, "deleted")
    await memory.store.append([_retraction(item, now, said_by)])
    return UndoneItem(item, "retracted")


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
