"""Times as people write them, how long ago or a date, and as they are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.api.admin.parameters import optional_text
from runtime.clock import Clock, rfc3339
from runtime.tools.time_input import read_moment


def moment(parameters: Mapping[str, Any], name: str, clock: Clock) -> int | None:
    """The time that `name` says, in Unix milliseconds, or None: `2h` (ago), or a date or time in ISO 8601, which is
    UTC unless it has an offset. Raises UsageError."""
    text = optional_text(parameters, name)
    if text is None:
        return None
    return round(read_moment(text, name, clock).timestamp() * 1000)


def told(at: int | None) -> str | None:
    """A time in Unix milliseconds as RFC 3339 writes it; None for none."""
    return None if at is None else rfc3339(at / 1000)
