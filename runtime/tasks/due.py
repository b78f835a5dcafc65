"""Due dates: a time, or a day, at whose end a task is due in the time zone of its user."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from runtime.clock import rfc3339
from runtime.errors import UsageError
from runtime.tasks.task import Due

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?P<offset>Z|[+-]\d{2}:\d{2})?", re.ASCII
)
_HINT: Final = "write a date (2026-12-01) or a time (2026-12-01T09:00:00Z, 2026-12-01T09:00:00+01:00)"


def read_due(text: str, zone: ZoneInfo | None) -> Due:
    """Return the due date in `text`: a time of RFC 3339, which is in `zone` without an offset, or a date. `zone`: None
    for that of the machine. Raises UsageError."""
    given = text.strip().upper()
    try:
        if _DAY.fullmatch(given):
            return due_on(date.fromisoformat(given), zone)
        if match := _TIME.fullmatch(given):
            read = datetime.fromisoformat(given)
            return Due(_milliseconds(read if match["offset"] else _in_zone(read, zone)), None)
    except (ValueError, OverflowError, OSError):
        pass
    raise UsageError(f"{text[:80]!r} is neither a date nor a time", hint=_HINT)


def due_on(day: date, zone: ZoneInfo | None) -> Due:
    """Return the due date of a task that is due at the end of a day in `zone`. Raises OverflowError for the last day
    of the calendar."""
    return Due(_milliseconds(_in_zone(datetime.combine(day + timedelta(days=1), time.min), zone)), day)


def due_text(due: Due | None) -> str | None:
    """Return a due date as text, as `read_due` reads it; a time is in UTC."""
    if due is None:
        return None
    return rfc3339(due.at / 1000) if due.day is None else due.day.isoformat()


def _in_zone(naive: datetime, zone: ZoneInfo | None) -> datetime:
    # Without a zone, `astimezone` takes a naive time for one of the machine, by the rules of that day.
    return naive.astimezone(UTC) if zone is None else naive.replace(tzinfo=zone).astimezone(UTC)


def _milliseconds(when: datetime) -> int:
    """Return a time without its fraction of a second. Raises ValueError for one before 1970."""
    seconds = int(when.timestamp())
    if seconds < 0:
        raise ValueError("before 1970")
    return seconds * 1000
