"""Deletion of a removed user's rows, in every table that has a `user_id`."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, or_, select, tuple_

from runtime.database.connection import Database
from runtime.database.schema import (
    TURN_TABLES,
    bodies,
    deliveries,
    item_parts,
    item_sources,
    items,
    kv_calls,
    metadata,
    runs,
    steps,
    users,
)

CHUNK: Final = 2000
"""Maximum rows that one transaction deletes, so that other writes run in between."""

RUNNING: Final = "running"
"""State of a turn that an agent is processing; it is kept, with its run, until the run ends."""

ITEMS: Final = (items, item_sources, item_parts)
"""The tables of the items of collections."""
# Before the runs, with which the database would delete any number of them at once.
_FIRST: Final = (*TURN_TABLES.values(), bodies, kv_calls, runs, steps)
_ORDER: Final = (
    *_FIRST,
    *(each for each in reversed(metadata.sorted_tables) if "user_id" in each.c and each not in (*_FIRST, users)),
)


async def delete_rows(database: Database, user_id: str, *, kept: Collection[Table] = ()) -> tuple[dict[str, int], bool]:
    """Delete every row of the user except that in `users`. Returns the number of rows by table, and True if running
    turns are left.

    `kept`: tables whose rows stay. May be interrupted and repeated. Raises `Unavailable`.
    """
    counts: dict[str, int] = {}
    for table in _ORDER:
        if table in kept:
            continue
        while count := await database.transact(partial(_delete, table=table, user_id=user_id)):
            counts[table.name] = counts.get(table.name, 0) + count
            if count < CHUNK:
                break
    if counts:
        database.empty_log()
    async with database.read() as connection:
        left = [await connection.scalar(_own_ids(table, user_id).limit(1)) for table in TURN_TABLES.values()]
        return counts, any(left)


def _delete(connection: Connection, table: Table, user_id: str) -> int:
    key = table.primary_key.columns.values()
    some = select(*key).where(table.c.user_id == user_id, *_conditions(table, user_id)).limit(CHUNK)
    chosen: Any = key[0].in_(some) if len(key) == 1 else tuple_(*key).in_(some)
    return connection.execute(delete(table).where(chosen)).rowcount


def _conditions(table: Table, user_id: str) -> list[ColumnElement[bool]]:
    """Return the conditions that keep running turns, their bodies, runs and steps."""
    if table in TURN_TABLES.values():
        return [table.c.state != RUNNING]
    if table is bodies:
        return [bodies.c.delivery_id.not_in(_own_ids(deliveries, user_id))]
    if table is runs:
        # A run without a delivery has the id of its turn.
        of_turns = [runs.c.id.not_in(_own_ids(each, user_id)) for each in TURN_TABLES.values()]
        return [or_(runs.c.delivery_id.is_(None), runs.c.delivery_id.not_in(_own_ids(deliveries, user_id))), *of_turns]
    if table is steps:
        return [steps.c.run_id.not_in(select(runs.c.id).where(runs.c.user_id == user_id))]
    return []


def _own_ids(table: Table, user_id: str) -> Select[tuple[str]]:
    return select(table.c.id).where(table.c.user_id == user_id)
