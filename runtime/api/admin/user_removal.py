"""Deletion of a removed user's data: in every memory, in their indexes, in SQL tables, and in the database."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

import structlog
from sqlalchemy import Connection, Table

from runtime.clock import milliseconds
from runtime.database.schema import user_storage
from runtime.errors import SymbiontError
from runtime.identity import users
from runtime.identity.belongings import ITEMS, delete_rows
from runtime.memory.collection.options import STORE
from runtime.memory.collection.row_codec import holds
from runtime.memory.errors import FsyncFailed
from runtime.memory.indexing.sealing import reseal_indexes
from runtime.tables.errors import TablesUnavailable
from runtime.tables.storage import StorageUsage
from runtime.threads.removal.deletion import delete_of_user as delete_threads
from runtime.tools.call_counts import COUNTS
from runtime.tools.context import Context
from runtime.webhooks.routing import dynamic_webhooks

log = structlog.get_logger("symbiont.users")


@dataclass
class ErasureResult:
    """Deleted items by memory, SQL tables, and rows by table of the database. `problems`: parts that could not be
    deleted. `running`: an agent still works on a turn of the user, whose rows stay."""

    items: dict[str, int] = field(default_factory=dict)
    tables: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    running: bool = False


def remove_rows(connection: Connection, user_id: str, now: int | None) -> tuple[int, int] | None:
    """Remove a user with its tokens and webhooks; return how many of each, None if there is no such user. `now`: see
    `users.remove`."""
    tokens = users.remove(connection, user_id, now)
    return None if tokens is None else (tokens, dynamic_webhooks.delete_all(connection, user_id))


async def erase(context: Context, user_id: str) -> ErasureResult:
    """Forget the key of a removed user, then delete all their data. A part that cannot be deleted is added to the
    problems, and the rest is deleted. May be interrupted and repeated: the id is never used again. Raises `Unavailable`
    if the key cannot be forgotten; then nothing is deleted.

    Of a memory that the program does not declare, rows are deleted and files stay.
    """
    done = ErasureResult()
    # First: whatever is left of the data, here and in copies, is unreadable from now on.
    keys = context.database.keys
    await asyncio.to_thread(keys.forget, user_id, milliseconds(context.clock))
    complete = await _open_collection(context, done.problems)
    for name, memory in sorted(context.memories.items()):
        try:
            count, problems = await memory.forget_user(user_id)
        except FsyncFailed:
            raise
        except SymbiontError as error:
            done.problems.append(f"memory {name}: {error.line()}")
            continue
        done.problems += [f"index of {name}: {problem}" for problem in problems]
        remote = memory.block.store.options.get("remote")
        if count:
            done.items[name] = count
            log.info("user_items_deleted", user_id=user_id, memory=name, items=count)
            if remote is not None:
                log.warning("remote_copies_remain", memory=name, remote=remote.name)
    if context.daemon.audit is not None:
        await context.daemon.audit.flush()
    # Without these rows the next attempt would not know what is to be deleted.
    kept = [*(() if complete else ITEMS), *(() if await _drop_tables(context, user_id, done) else (user_storage,))]
    try:
        await _erase_rows(context, user_id, done, kept)
    except SymbiontError as error:
        done.problems.append(f"database: {error.line()}")
    try:
        more = (context.recall, context.task_search)
        opened = [*context.memories.values(), *(memory for memory in more if memory is not None)]
        await reseal_indexes(keys, (memory.indexer for memory in opened))
    except SymbiontError as error:
        done.problems.append(f"indexes: {error.line()}")
    COUNTS.pop(user_id, None)
    return done


async def _erase_rows(context: Context, user_id: str, done: ErasureResult, kept: Collection[Table]) -> None:
    """Delete the rows of a removed user but those in `kept`, and what indexes over rows have of them."""
    # First, so that a run which still works in one of them cannot write to it any more.
    await delete_threads(context.database, user_id)
    if context.recall is not None:
        _, problems = await context.recall.forget_user(user_id)
        done.problems += [f"index of messages: {problem}" for problem in problems]
    done.rows, done.running = await delete_rows(context.database, user_id, kept=kept)
    if context.task_search is not None:
        _, problems = await context.task_search.forget_user(user_id, user_id)
        done.problems += [f"index of tasks: {problem}" for problem in problems]


async def _drop_tables(context: Context, user_id: str, done: ErasureResult) -> bool:
    """Delete the SQL tables of a user. Return False, and add the reason to the problems, if this fails."""
    storage, sql = context.limits.storage, context.sql
    try:
        stored = StorageUsage() if storage is None else await storage.usage(user_id)
        if sql is None and stored.name is not None:
            raise TablesUnavailable("they cannot be opened here")
        if sql is not None:
            await sql.drop(user_id)
    except SymbiontError as error:
        done.problems.append(f"tables: {error.line()}")
        return False
    done.tables = stored.tables
    return True


async def _open_collection(context: Context, problems: list[str]) -> bool:
    """Open the collection without a block if it has items: it is opened when it is first used, and its index contains
    texts too. Return False, and add the reason to the problems, if this fails."""
    try:
        if STORE not in context.memories and await holds(context.database, STORE):
            await context.memories.collection()
    except FsyncFailed:
        raise
    except SymbiontError as error:
        problems.append(f"memory {STORE}: {error.line()}")
        return False
    return True
