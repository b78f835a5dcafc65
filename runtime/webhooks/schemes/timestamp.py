"""Timestamps in signed requests: parsed strictly, compared with a tolerance."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Literal

from runtime.webhooks.request.refusal import RefusedRequest

Unit = Literal["s", "ms", "rfc3339"]
"""The format of a sender's time: Unix seconds, Unix milliseconds, or text (RFC 3339)."""

# Unix milliseconds have 13 digits until the year 2286; nothing longer is a time.
_DIGITS = 15

# RFC 3339 section 5.6 without its optional forms: a space for `T`, lower-case letters, leap seconds.
_TEXT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def read_timestamp(text: str) -> int:
    """Parse an integer in canonical form: ASCII digits, no sign, no leading zero, at most 15.

    Raises `RefusedRequest`. Stricter than `int()`, which reads `１７`, `1_7` and ` 17` as 17.
    """
    if not (0 < len(text) <= _DIGITS and text.isascii() and text.isdigit()) or (text[0] == "0" and text != "0"):
        raise RefusedRequest("malformed_timestamp")
    return int(text)


def read_time(text: str, unit: Unit) -> float:
    """Return the Unix seconds of `text`, written in `unit`. Raises `RefusedRequest`."""
    if unit == "s":
        return read_timestamp(text)
    if unit == "ms":
        return read_timestamp(text) / 1000
    match = _TEXT.fullmatch(text)
    if match is None:
        raise RefusedRequest("malformed_timestamp")
    moment, fraction, zone = match.groups()
    try:
        whole = datetime.fromisoformat(moment + zone).timestamp()
    except (ValueError, OverflowError):
        raise RefusedRequest("malformed_timestamp") from None
    return whole + float(fraction or 0)


def write_time(now: float, unit: Unit) -> str:
    """Format `now` (Unix seconds) in `unit`: the inverse of `read_time`, in whole seconds except for `ms`."""
    if unit == "rfc3339":
        return datetime.fromtimestamp(int(now), UTC).isoformat().replace("+00:00", "Z")
    return str(int(now * (1000 if unit == "ms" else 1)))


def check_fresh(timestamp: float, now: float, tolerance: float) -> None:
    """Raise `RefusedRequest` unless `timestamp` is within `tolerance` of `now`, bounds included; all in seconds."""
    if timestamp < now - tolerance:
        raise RefusedRequest("stale")
    if timestamp > now + tolerance:
        raise RefusedRequest("future")
