"""Parsing of times: a duration before or from now, or a date."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.quantity import read_duration
from runtime.clock import Clock
from runtime.errors import UsageError
from runtime.memory.item import rfc3339

EXAMPLE: Final = {"start": "2026-11-01T00:00:00Z", "end": "2026-11-30T23:59:59Z"}

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_TICK: Final = timedelta(microseconds=1)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


def read_rfc3339(value: Any) -> datetime:
    """Return the time in UTC. Raises ValueError unless it is a date and time of RFC 3339, with its offset."""
    if not isinstance(value, str):
        raise ValueError("it is not text")
    if not _RFC3339.fullmatch(value):
        raise ValueError("it is not a date and time of RFC 3339, such as 2026-11-20T08:30:00Z")
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("there is no such date and time") from None


Moment = Annotated[
    datetime,
    BeforeValidator(read_rfc3339),
    WithJsonSchema({"type": "string", "format": "date-time"}, mode="validation"),
]
"""A time as text in RFC 3339, with its offset."""


class TimeRange(BaseModel):
    """A period; one end may be omitted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    start: Moment | None = Field(default=None, description="The earliest time, RFC 3339.", examples=[EXAMPLE["start"]])
    end: Moment | None = Field(default=None, description="The latest time, RFC 3339.", examples=[EXAMPLE["end"]])

    @model_validator(mode="after")
    def _in_order(self) -> TimeRange:
        if self.start is None and self.end is None:
            raise ValueError("it has neither a start nor an end")
        if self.start is not None and self.end is not None and self.end < self.start:
            raise ValueError("its end is before its start")
        return self

    @property
    def until(self) -> datetime | None:
        """The first time after the period."""
        return None if self.end is None or self.end == _LAST else self.end + _TICK

    def bounds(self) -> dict[str, str]:
        """Return both ends in UTC, without open ones."""
        ends = (("start", self.start), ("end", self.end))
        return {name: rfc3339(time) for name, time in ends if time is not None}


Within = Annotated[
    TimeRange | None,
    Field(description="Only items stored from `start` to `end`, both included.", examples=[EXAMPLE]),
]


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
