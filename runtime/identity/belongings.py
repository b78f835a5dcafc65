"""Deletion of a removed user's rows, in every table that has a `user_id`."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Table, delete, or_, select, tuple_

from runtime.database.connection import Database
from runtime.database.schema import bodies, deliveries, item_parts, item_sources, items, metadata, runs, steps, users

CHUNK: Final = 2000
"""Maximum rows that one transaction deletes, so that other writes run in between."""

RUNNING: Final = "running"
"""State of a delivery that an agent is processing; it is kept, with its run, until the run ends."""

_ITEMS: Final = (items, item_sources, item_parts)
_FIRST: Final = (deliveries, bodies, runs, steps)
_ORDER: Final = (
    *_FIRST,
    *(each for each in reversed(metadata.sorted_tables) if "user_id" in each.c and each not in (*_FIRST, users)),
)


async def delete_rows(database: Database, user_id: str, *, with_items: bool = True) -> tuple[dict[str, int], bool]:
    """Delete every row of the user except that in `users`. Returns the number of rows by table, and True if running
    deliveries are left.

    `with_items`: also the items of collections. May be interrupted and repeated. Raises `Unavailable`.
    """
    counts: dict[str, int] = {}
    for table in _ORDER:
        if table in _ITEMS and not with_items:
            continue
        while count := await database.transact(partial(_delete, table=table, user_id=user_id)):
            counts[table.name] = counts.get(table.name, 0) + count
            if count < CHUNK:
                break
    if counts:
        database.empty_log()
    query = select(deliveries.c.id).where(deliveries.c.user_id == user_id).limit(1)
    async with database.read() as connection:
        return counts, (await connection.execute(query)).first() is not None


def _delete(connection: Connection, table: Table, user_id: str) -> int:
    key = table.primary_key.columns.values()
    some = select(*key).where(table.c.user_id == user_id, *_ended(table, user_id)).limit(CHUNK)
    chosen: Any = key[0].in_(some) if len(key) == 1 else tuple_(*key).in_(some)
    return connection.execute(delete(table).where(chosen)).rowcount


def _ended(table: Table, user_id: str) -> list[ColumnElement[bool]]:
    """Return the conditions that keep running deliveries, their bodies, runs and steps."""
    theirs = select(deliveries.c.id).where(deliveries.c.user_id == user_id)
    if table is deliveries:
        return [deliveries.c.state != RUNNING]
    if table is bodies:
        return [bodies.c.delivery_id.not_in(theirs)]
    if table is runs:
        return [or_(runs.c.delivery_id.is_(None), runs.c.delivery_id.not_in(theirs))]
    if table is steps:
        return [steps.c.run_id.not_in(select(runs.c.id).where(runs.c.user_id == user_id))]
    return []
