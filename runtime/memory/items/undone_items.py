"""Record of the items that an undo removed: nothing else says so of a deleted item.

It is a row beside the steps of the run, deleted with them. Its position is below zero, so that it is never the position
of a step.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, func, select

from runtime.clock import Clock, milliseconds
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import steps
from runtime.database.sealed import Seal
from runtime.threads.step import DONE

_KIND: Final = "undo"
_COLUMNS: Final = (
    *("run_id", "position", "key", "user_id", "kind", "repeatable", "state", "attempt", "started_at", "finished_at"),
    *("intent", "result"),
)


async def note_undone(database: Database, clock: Clock, run_id: str, user_id: str, addresses: Collection[str]) -> None:
    """Note that the items of the run with these addresses (`source_uri`) were taken back. Raises `Unavailable`."""
    intent, result = Seal(database.keys, steps.c.intent), Seal(database.keys, steps.c.result)
    content, now = msgspec.json.encode(sorted(addresses)), milliseconds(clock)

    def insert(connection: Connection) -> int:
        least = connection.execute(select(func.min(steps.c.position)).where(steps.c.run_id == run_id)).scalar()
        position = min(least or 0, 0) - 1
        given: dict[str, Any] = {"row": _row(run_id, position), "user_id": user_id}
        about = (run_id, position, f"{_KIND}/{-position}", user_id, _KIND, True, DONE, 0, now, now)
        row = (*about, intent.close(b"null", **given), result.close(content, **given))
        return bulk.insert(connection, steps, _COLUMNS, [row], ignore=True)

    # Another daemon may have taken the position.
    while not await database.transact(insert):
        pass


async def undone_addresses(database: Database, run_id: str, user_id: str) -> set[str]:
    """Return the addresses of the items of a run that were taken back. Raises `Unavailable`."""
    seal = Seal(database.keys, steps.c.result)
    query = select(steps.c.position, steps.c.result).where(steps.c.run_id == run_id, steps.c.kind == _KIND)
    async with database.read() as connection:
        rows = (await connection.execute(query.where(steps.c.user_id == user_id, steps.c.position < 0))).all()
    found: set[str] = set()
    for position, sealed in rows:
        content = seal.open(sealed, row=_row(run_id, position), user_id=user_id)
        found.update(msgspec.json.decode(content, type=list[str]))
    return found


def _row(run_id: str, position: int) -> str:
    return f"{run_id}/{position}"
