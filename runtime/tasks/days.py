"""The ends of the days at which tasks of a user are due, when the time zone of the user is changed."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Final
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, Connection, cast, select, update

from runtime.database.schema import tasks
from runtime.tasks.due import due_on
from runtime.tasks.rows import EPOCH
from runtime.tasks.writing import lock_tasks

_DAY_MS: Final = 86_400_000
_TOGETHER: Final = 10_000
"""Days of one statement."""


def move_days(connection: Connection, user_id: str, zone: ZoneInfo | None) -> None:
    """Let the tasks of a user that are due at the end of a day be due when it ends in `zone`; None: that of the
    machine. No task counts as changed: it is due on the same day."""
    lock_tasks(connection, user_id)
    mine = tasks.c.user_id == user_id, tasks.c.due_day.is_not(None)
    days_by_offset: defaultdict[int, list[int]] = defaultdict(list)
    for day in connection.execute(select(tasks.c.due_day).where(*mine).distinct()).scalars():
        end = (day + 1) * _DAY_MS
        days_by_offset[end - due_on(EPOCH + timedelta(days=day), zone).at].append(day)
    for offset, days in days_by_offset.items():
        end_of_day = (cast(tasks.c.due_day, BigInteger) + 1) * _DAY_MS - offset
        for start in range(0, len(days), _TOGETHER):
            chosen = tasks.c.due_day.in_(days[start : start + _TOGETHER]), tasks.c.due_at != end_of_day
            connection.execute(update(tasks).where(*mine, *chosen).values(due_at=end_of_day))
