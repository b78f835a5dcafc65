"""Times as people write them, how long ago or a date, and as they are told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dslc.blocks.duration import read_duration
from dslc.blocks.invalid import Invalid
from runtime.api.parameters import optional_text
from runtime.clock import Clock, rfc3339
from runtime.errors import UsageError


def moment(parameters: Mapping[str, Any], name: str, clock: Clock) -> int | None:
    """The time that `name` says, in Unix milliseconds, or None: `2h` (ago), or a date or time in ISO 8601, which is
    UTC unless it has an offset. Raises UsageError."""
    text = optional_text(parameters, name)
    if text is None:
        return None
    try:
        return int(clock.now() * 1000) - round(read_duration(text).total_seconds() * 1000)
    except Invalid:
        pass
    try:
        read = datetime.fromisoformat(text)
        return int((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{name}: {text!r} is no time", hint="write how long ago (2h, 7d), or a date (2026-11-20, 2026-11-20T08:30)"
        ) from None


def told(at: int | None) -> str | None:
    """A time in Unix milliseconds as RFC 3339 writes it; None for none."""
    return None if at is None else rfc3339(at / 1000)
