"""The operation that takes back what one run wrote."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import structlog

from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import Text, attributes
from runtime.api.admin.state import AdminContext
from runtime.clock import utc
from runtime.errors import Conflict, NotFound
from runtime.memory.collection.options import STORE
from runtime.memory.collection.row_codec import holds
from runtime.memory.core.block import Origin
from runtime.memory.core.undo import UndoneBlock, undo_blocks
from runtime.memory.item import run_uri
from runtime.memory.items.copies import forget_copies_of
from runtime.memory.items.undo import UndoneItem, foresee_undo, undo_items
from runtime.memory.items.undone_items import note_undone, undone_addresses
from runtime.memory.keyed_lock import KeyedLock
from runtime.memory.open_memory import OpenMemory
from runtime.threads.content import ToolOutputPart
from runtime.threads.run import RunRow
from runtime.threads.turns.named_run import NamedRun, named_run

log = structlog.get_logger("symbiont.agents")

_SKEW: Final = timedelta(days=1)
"""Tolerance of times of items before their run: clocks of daemons differ, and may be set back."""
_STORE_TOOLS: Final = ("archival_insert", "archival_replace")
"""Tools whose items have the address of their call."""
_CHANGED_OUTCOMES: Final = ("deleted", "retracted", "restored")
_SKIPPED_OUTCOMES: Final = ("replaced", "edited", "too_old")
_locks = KeyedLock()


@operation(changes=True, searches=True)
async def run_undo(context: AdminContext, run_id: Text, dry_run: bool = False) -> dict[str, Any]:
    """Take back what the run of the user wrote to memories and to blocks of core memory. `dry_run`: only return
    what would be done.

    `changed`: something was taken back. `complete`: nothing of it had to be left, because it was changed since. An
    interrupted call has taken back a part, and a repeated one takes back the rest.
    """
    user_id = context.caller.user_id
    async with _locks.of(run_id):
        found = await named_run(context.database, run_id, user_id)
        if found.living is not None:
            raise Conflict(
                f"the run {run_id} has not ended: it is {found.living}",
                hint=f"wait for its end, or cancel it with `symbi agent cancel {run_id}`",
            )
        return await _undo(context, found, user_id, dry_run=dry_run)


async def _undo(context: AdminContext, found: NamedRun, user_id: str, *, dry_run: bool) -> dict[str, Any]:
    run = found.run
    began = None if found.arrived_at is None else utc(found.arrived_at / 1000) - _SKEW
    if STORE not in context.memories and await holds(context.database, STORE):
        # The collection without a block is opened when it is first used.
        await context.memories.collection()
    items = {
        name: await _undo_memory(context, memory, run, user_id, began, dry_run=dry_run)
        for name, memory in sorted(context.memories.items())
    }
    blocks = await undo_blocks(context.services.blocks, user_id, run.id, Origin("person"), dry_run=dry_run)
    outcomes = [each.outcome for done in items.values() for each in done] + [each.outcome for each in blocks]
    changed = sum(outcome in _CHANGED_OUTCOMES for outcome in outcomes)
    if changed and not dry_run:
        log.info("run_undone", run_id=run.id, agent=run.agent, user_id=user_id, changes=changed)
    return {
        "run": run.id,
        "agent": run.agent,
        "memories": [{"memory": name, "items": [_item(each) for each in done]} for name, done in items.items() if done],
        "blocks": [_block(each) for each in blocks],
        "changed": changed > 0,
        "complete": not any(outcome in _SKIPPED_OUTCOMES for outcome in outcomes),
        "notes": await _notes(context, run, user_id, items),
        "dry_run": dry_run,
    }


async def _undo_memory(
    context: AdminContext, memory: OpenMemory, run: RunRow, user_id: str, began: datetime | None, *, dry_run: bool
) -> list[UndoneItem]:
    # In files a run writes to the memory of its own agent alone, and they must be readable. The agent of an item in a
    # collection is that collection.
    agent_id = run.agent if memory.collection is None else None
    if dry_run:
        return await foresee_undo(memory, user_id, run.id, agent_id=agent_id, began=began)
    now = utc(context.clock.now())
    foreseen = await foresee_undo(memory, user_id, run.id, agent_id=agent_id, began=began)
    await forget_copies_of(context.database, (each.item for each in foreseen if each.outcome in _CHANGED_OUTCOMES))
    done = await undo_items(memory, user_id, run.id, now, agent_id=agent_id, began=began)
    gone = {each.item.source_uri for each in done if each.outcome in _CHANGED_OUTCOMES}
    addresses = {address for address in gone if address is not None and address.startswith(run_uri(run.id, ""))}
    if addresses:
        await note_undone(context.database, context.clock, run.id, user_id, addresses)
    return done


async def _notes(
    context: AdminContext, run: RunRow, user_id: str, items: Mapping[str, Sequence[UndoneItem]]
) -> list[str]:
    """Return notes about items that the run stored by its messages, and that no memory of the program has."""
    there = {each.item.source_uri for done in items.values() for each in done}
    missing = await _stored_addresses(context, run, user_id) - there
    if not missing:
        return []
    before = missing & await undone_addresses(context.database, run.id, user_id)
    notes = []
    if before:
        notes.append(f"{_items_text(before, 'was', 'were')} already taken back")
    if missing - before:
        where = "in no memory of the program: deleted since, or the memory is not declared any more"
        notes.append(f"{_items_text(missing - before, 'is', 'are')} {where}")
    return notes


def _items_text(items: Collection[str], one: str, several: str) -> str:
    if len(items) == 1:
        return f"an item that the run stored {one}"
    return f"{len(items):,} items that the run stored {several}"


async def _stored_addresses(context: AdminContext, run: RunRow, user_id: str) -> set[str]:
    """Return the addresses of the items that calls of the run stored in archival memory."""
    if run.thread_id is None:
        return set()
    try:
        thread = await context.services.threads.get(run.thread_id, user_id=user_id)
    except NotFound:
        return set()
    said = await context.services.messages.of_run(thread, run.id)
    outputs = [part for message in said for part in message.parts if isinstance(part, ToolOutputPart)]
    return {run_uri(run.id, output.call_id) for output in outputs if _has_stored(output)}


def _has_stored(output: ToolOutputPart) -> bool:
    if output.name not in _STORE_TOOLS or output.status != "ok":
        return False
    try:
        answer = msgspec.json.decode(output.text)
    except msgspec.DecodeError:
        # Cut, or from another version of the program.
        return False
    return isinstance(answer, dict) and answer.get("outcome") == "stored"


def _item(undone: UndoneItem) -> dict[str, Any]:
    item = attributes(undone.item, "memory_id", "text") | {"agent": undone.item.agent_id}
    return item | attributes(undone, "outcome", "replaced_by")


def _block(undone: UndoneBlock) -> dict[str, Any]:
    return attributes(undone.block, "label", "agent", "subject") | attributes(undone, "outcome", "version")
