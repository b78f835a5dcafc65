"""Names of tasks for people: the id, or the last characters of it.

The beginning of an id is the time, which tasks that were made together share; its last 12 digits are random.
"""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import select

from runtime.database.connection import Database
from runtime.database.schema import tasks
from runtime.errors import NotFound, UsageError

SHORTEST: Final = 4
"""Digits that name a task at least."""
LONGEST: Final = 12

_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_END: Final = re.compile(rf"[0-9a-f]{{{SHORTEST},{LONGEST}}}", re.ASCII)
_HINT: Final = "`symbi task list --all` shows them"


async def find_task(database: Database, user_id: str, name: str) -> str:
    """Return the id of the task of a user that `name` is, or whose id alone ends with it. Raises UsageError for what
    can be no id, NotFound unless exactly one task matches, `Unavailable`."""
    given = name.strip().lower()
    if _ID.fullmatch(given):
        return given
    if not _END.fullmatch(given):
        raise UsageError(
            f"{name[:80]!r} names no task",
            hint=f"give its id, or the last {SHORTEST} to {LONGEST} digits of it; {_HINT}",
        )
    query = select(tasks.c.id).where(tasks.c.user_id == user_id, tasks.c.id.endswith(given)).limit(3)
    async with database.read() as connection:
        found = list((await connection.execute(query)).scalars())
    if len(found) == 1:
        return str(found[0])
    if not found:
        raise NotFound(f"no task has an id that ends with {given}", hint=_HINT)
    raise NotFound(f"the ids of several tasks end with {given}", hint=f"more digits: {', '.join(found)}")
