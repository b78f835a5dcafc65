"""The limit of new tasks of each user in an hour.

Creations are counted by the minute, in the transaction of each: a refused one does not count, and one whose task was
deleted does. Several daemons on one database share the counts; a user's transactions follow one another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, delete, or_, select

from dslc.blocks.values.quantity import format_duration
from runtime.database import bulk
from runtime.database.schema import task_creations
from runtime.errors import RateLimited

PER_HOUR: Final = 100
"""The design's limit."""

_MINUTE_MS: Final = 60_000
_MINUTES: Final = 60


def count_creation(connection: Connection, user_id: str, per_hour: int, now: int) -> None:
    """Count a task that is created at `now` (Unix milliseconds). Raises RateLimited if the user has created `per_hour`
    in the last hour; 0 is no limit."""
    if not per_hour:
        return
    minute = now // _MINUTE_MS
    minutes, mine = task_creations.c.minute, task_creations.c.user_id == user_id
    # Minutes in the far future were counted while the clock was wrong.
    passed = or_(minutes <= minute - _MINUTES, minutes >= minute + _MINUTES)
    connection.execute(delete(task_creations).where(mine, passed))
    counts = connection.execute(select(minutes, task_creations.c.count).where(mine).order_by(minutes)).all()
    if sum(count for _, count in counts) >= per_hour:
        seconds = max(1, math.ceil((_free_at(counts, per_hour) * _MINUTE_MS - now) / 1000))
        raise RateLimited(
            f"at most {per_hour} tasks can be created in an hour, and the next one in {format_duration(seconds)}",
            retry_after=seconds,
        )
    dialect = connection.dialect.name
    for statement in bulk.add_statements(
        dialect, task_creations, ("user_id", "minute"), ("count",), [(user_id, minute, 1)]
    ):
        connection.exec_driver_sql(statement.sql, statement.parameters)


def _free_at(counts: Sequence[Any], per_hour: int) -> int:
    """Return the minute from which on less than `per_hour` of these creations count."""
    left = sum(count for _, count in counts)
    for minute, count in counts:
        left -= count
        if left < per_hour:
            return int(minute) + _MINUTES
    raise AssertionError("a limit of no task is none")
