"""Deletion of threads with what hangs on them: marked at once, and deleted in small transactions.

A marked thread is never read again. An interrupted deletion is completed by the next one, at the latest by the
retention. What outputs of tools in other threads quote of it is deleted first, while the mark is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Select, Table, exists, func, select, text, update
from sqlalchemy import delete as delete_from

from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import (
    TURN_TABLES,
    approvals,
    inputs,
    messages,
    runs,
    steps,
    summaries,
    thread_turns,
    threads,
)
from runtime.errors import Conflict
from runtime.threads import change_log, run
from runtime.threads.content import Deletion
from runtime.threads.events import log
from runtime.threads.removal import quotes

DELETED: Final = "deleted"
"""The kind of a thread whose rest is being deleted."""

CHUNK: Final = 500
"""Maximum number of rows of a table that one transaction deletes or marks, so that other writes run in between."""

_THREADS: Final = 100
"""Threads whose rest is deleted together."""

_LOCK: Final = 0x73796C657261
"""The advisory lock of a transaction that deletes the rest of threads (PostgreSQL): two of them would wait for each
other in a circle."""

_TAKE_LOCK: Final = text(f"SELECT pg_advisory_xact_lock({_LOCK})")
_GONE: Final[dict[str, Any]] = {"kind": DELETED, "subject": None, "subject_key": None, "title": None}


async def delete(database: Database, thread_id: str, *, force: bool) -> bool:
    """Delete one thread. False: there is none. Raises Conflict while a turn holds it or waits for it, unless
    `force`."""
    if not await database.transact(partial(_mark, thread_id=thread_id, force=force)):
        return False
    database.empty_log()
    await erase(database, thread_id)
    return True


async def delete_of_user(database: Database, user_id: str, agent: str | None = None) -> int:
    """Delete all threads of a user, or those with one agent, whatever turns there are; return their number. May be
    interrupted and repeated."""
    theirs = select(threads.c.id).where(threads.c.user_id == user_id, threads.c.kind != DELETED)
    if agent is not None:
        theirs = theirs.where(threads.c.agent == agent)
    count = await mark(database, theirs)
    await erase(database)
    return count


async def mark(database: Database, wanted: Select[Any]) -> int:
    """Mark the threads whose ids `wanted` selects as deleted; return their number. Afterwards it selects none."""
    some = wanted.limit(CHUNK).with_for_update(key_share=True, skip_locked=True)

    def chunk(connection: Connection) -> tuple[int, int]:
        locked = list(connection.execute(some).scalars())
        # A message may have been sent to one of them since, before it was locked.
        still = wanted.order_by(None).where(threads.c.id.in_(locked))
        found = list(connection.execute(still).scalars())
        rows = [(thread_id, *_GONE.values()) for thread_id in found]
        bulk.update(connection, threads, ("id",), tuple(_GONE), rows)
        change_log.note(connection, found)
        return len(locked), len(found)

    count, locked = 0, CHUNK
    while locked == CHUNK:
        locked, marked = await database.transact(chunk)
        count += marked
    if count:
        database.empty_log()
    return count


async def erase(database: Database, thread_id: str | None = None) -> None:
    """Delete what is left of the threads that are marked, or of one."""
    # In the order of `ix_threads_deleted`, which has those that are marked alone.
    marked = select(*threads.c["id", "user_id"]).where(text(f"kind = '{DELETED}'")).order_by(threads.c.id)
    if thread_id is not None:
        marked = marked.where(threads.c.id == thread_id)
    of_users = defaultdict[str, list[str]](list)
    async with database.read() as reading:
        for found, user_id in await reading.execute(marked):
            of_users[user_id].append(found)
    for user_id, ids in of_users.items():
        await quotes.forget(database, user_id, Deletion(frozenset(ids)))
        # Those alone: of others that are marked meanwhile, quotes are left.
        for start in range(0, len(ids), _THREADS):
            while await database.transact(partial(erase_some, ids=ids[start : start + _THREADS])):
                pass


async def erase_leftover_inputs(database: Database) -> None:
    """Delete the inputs that were running when their threads were deleted, and have ended."""
    exist = exists().where(threads.c.id == inputs.c.thread_id)
    left = select(inputs.c.id).where(~exist, inputs.c.state != run.RUNNING).order_by(inputs.c.id).limit(CHUNK)

    def erase_ended(connection: Connection, ids: Sequence[str]) -> None:
        ended = select(inputs.c.id).where(inputs.c.id.in_(ids), inputs.c.state != run.RUNNING)
        _delete_turns(connection, list(connection.execute(ended.with_for_update()).scalars()))

    # Reads all inputs, so not in the transaction for which other writers wait.
    while True:
        async with database.read() as reading:
            found = list((await reading.execute(left)).scalars())
        if not found:
            return
        await database.transact(partial(erase_ended, ids=found))


def not_busy() -> Any:
    """Return the condition that no turn holds a thread or waits for it."""
    return ~exists().where(thread_turns.c.thread_id == threads.c.id)


def erase_some(connection: Connection, *, ids: Sequence[str]) -> bool:
    """Delete a part of the rest of those of these threads that are marked. False: nothing is left."""
    if connection.dialect.name == "postgresql":
        connection.execute(_TAKE_LOCK)
    marked = select(threads.c.id).where(text(f"kind = '{DELETED}'"), threads.c.id.in_(ids))
    # Locked before runs, as everywhere; not against new runs, which refer to the thread.
    some = marked.order_by(threads.c.id).with_for_update(key_share=True)
    found = list(connection.execute(some).scalars())
    if not found:
        return False
    for table in (messages, summaries, approvals):
        if _delete_some(connection, table, found) == CHUNK:
            return True
    if log.delete_of_threads(connection, found, CHUNK) == CHUNK:
        return True
    for delete_more in (_delete_inputs, _detach_runs):
        if delete_more(connection, found) == CHUNK:
            return True
    _free_turns(connection, found)
    bulk.delete(connection, threads, "id", found)
    return False


def _mark(connection: Connection, *, thread_id: str, force: bool) -> bool:
    found = bulk.find(connection, threads, ("id",), ("kind",), [(thread_id,)], lock="NO KEY UPDATE")
    if not found or found[0][1] == DELETED:
        return False
    if not force and not connection.execute(select(threads.c.id).where(threads.c.id == thread_id, not_busy())).all():
        raise Conflict(
            "an agent is at work in this thread, or a message waits for it",
            hint="wait until it has ended or cancel it, or force the deletion",
        )
    connection.execute(update(threads).where(threads.c.id == thread_id).values(**_GONE))
    change_log.note(connection, [thread_id])
    return True


def _delete_some(connection: Connection, table: Table, of: Sequence[str]) -> int:
    some = select(table.c.id).where(table.c.thread_id.in_(of)).limit(CHUNK)
    return connection.execute(delete_from(table).where(table.c.id.in_(some))).rowcount


def _delete_inputs(connection: Connection, of: Sequence[str]) -> int:
    """Delete some inputs of these threads with their runs; return their number. Running ones stay until their end, see
    `erase_leftover_inputs`."""
    theirs = select(inputs.c.id).where(inputs.c.thread_id.in_(of), inputs.c.state != run.RUNNING)
    gone = list(connection.execute(theirs.order_by(inputs.c.id).limit(CHUNK).with_for_update()).scalars())
    _delete_turns(connection, gone)
    return len(gone)


def _delete_turns(connection: Connection, of: Sequence[str]) -> None:
    """Delete these inputs with their runs, which have the same ids."""
    bulk.delete(connection, thread_turns, "turn_id", of)
    bulk.delete(connection, steps, "run_id", of)
    bulk.delete(connection, approvals, "run_id", of)
    bulk.delete(connection, runs, "id", of)
    bulk.delete(connection, inputs, "id", of)


def _free_turns(connection: Connection, of: Sequence[str]) -> None:
    """Remove the turns that are left from these threads. Deliveries that waited or were parked there go on, and find
    other threads."""
    waiting = select(thread_turns.c.turn_id).where(thread_turns.c.thread_id.in_(of))
    parked = waiting.where(thread_turns.c.parked)
    since = select(func.min(threads.c.updated_at)).where(threads.c.id.in_(of)).scalar_subquery()
    for table in TURN_TABLES.values():
        held = table.c.id.in_(waiting), table.c.state == "waiting"
        connection.execute(update(table).where(*held).values(state="queued"))
        held = table.c.id.in_(parked), table.c.state == "queued"
        connection.execute(update(table).where(*held).values(next_attempt_at=since))
    bulk.delete(connection, thread_turns, "thread_id", of)


def _detach_runs(connection: Connection, of: Sequence[str]) -> int:
    """Delete some runs of these threads with their steps; return how many runs it was.

    Runs of deliveries stay, because a delivery knows its runs, and so do runs that are still running. Of those that
    are done, the steps are deleted: they repeat the conversation.
    """
    query = select(runs.c.id, runs.c.delivery_id, runs.c.state).where(runs.c.thread_id.in_(of))
    found = connection.execute(query.order_by(runs.c.id).limit(CHUNK).with_for_update()).all()
    ended = [row for row in found if row.state != run.RUNNING]
    gone = [row.id for row in ended if row.delivery_id is None]
    done = [row.id for row in ended if row.delivery_id is not None and row.state == run.DONE]
    bulk.update(connection, runs, ("id",), ("thread_id",), [(row.id, None) for row in found])
    bulk.delete(connection, steps, "run_id", [*gone, *done])
    bulk.delete(connection, runs, "id", gone)
    return len(found)
