"""Timestamps in signed requests: read strictly, judged against a tolerance."""

from __future__ import annotations

from runtime.webhooks.refusal import Refused

# Unix milliseconds have 13 digits until the year 2286; nothing longer is a time.
_DIGITS = 15


def read_timestamp(text: str) -> int:
    """The integer that `text` is the canonical form of: ASCII digits, no sign, no leading zero, at most 15.

    Raises `Refused`. Stricter than `int()`, which reads `１７`, `1_7` and ` 17` as 17.
    """
    if not (0 < len(text) <= _DIGITS and text.isascii() and text.isdigit()) or (text[0] == "0" and text != "0"):
        raise Refused("malformed_timestamp")
    return int(text)


def check_fresh(timestamp: float, now: float, tolerance: float) -> None:
    """Raise `Refused` unless `timestamp` is within `tolerance` of `now`, bounds included; all in seconds."""
    if timestamp < now - tolerance:
        raise Refused("stale")
    if timestamp > now + tolerance:
        raise Refused("future")
