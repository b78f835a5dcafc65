"""Parsing of times: a duration before or from now, or a date."""

from __future__ import annotations

from datetime import UTC, datetime

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.quantity import read_duration
from runtime.clock import Clock
from runtime.errors import UsageError


def read_moment(text: str, name: str, clock: Clock, *, ahead: bool = False) -> datetime:
    """Return the time in `text`, in UTC: `2h` (ago, or if `ahead` from now), or a date or time in ISO 8601, which is
    UTC unless it has an offset. Raises UsageError, with `name` for the time."""
    try:
        try:
            seconds = read_duration(text).total_seconds()
            return datetime.fromtimestamp(clock.now() + (seconds if ahead else -seconds), UTC)
        except Invalid:
            read = datetime.fromisoformat(text)
            return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        duration = f"a duration {'from' if ahead else 'before'} now (2h, 7d)"
        raise UsageError(
            f"{name}: {text[:80]!r} is not a time",
            hint=f"write {duration} or a date (2026-11-20, 2026-11-20T08:30)",
        ) from None
