"""Durations as the language writes them: `90d`, `1h30m`, `6months`."""

from __future__ import annotations

import re
from datetime import timedelta

from dslc.blocks.values.invalid import Invalid

_MS = 1
_SECOND = 1000 * _MS
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

LENGTHS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (31_557_600 * _SECOND, ("y", "year", "years")),
    (2_630_016 * _SECOND, ("month", "months")),
    (7 * _DAY, ("w", "week", "weeks")),
    (_DAY, ("d", "day", "days")),
    (_HOUR, ("h", "hour", "hours")),
    (_MINUTE, ("m", "minute", "minutes")),
    (_SECOND, ("s", "second", "seconds")),
    (_MS, ("ms", "millisecond", "milliseconds")),
)
"""Milliseconds and spellings of each unit, longest first. A month is 30.44 days and a year 365.25 days, as in Rust's
humantime."""

_MILLISECONDS = {spelling: length for length, spellings in LENGTHS for spelling in spellings}
UNITS = ("ms", "s", "m", "h", "d", "w", "months", "y")
"""The short spelling of every unit, shortest unit first."""

_PART = re.compile(r"([0-9](?:_?[0-9])*) *([A-Za-z]+) *")
_LONGEST = timedelta.max // timedelta(milliseconds=1)
_MOST_DIGITS = len(str(_LONGEST))  # more digits exceed the longest duration; int() refuses very long numbers
_HINT = "such as `90d`, `1h30m` or `250ms`"


def read_duration(text: str) -> timedelta:
    """Parse a duration: whole numbers, each with a unit, in descending order and not repeated. As in humantime, a unit
    may have blanks before and after it (`90 days`, in quotes).

    Raises Invalid: "type" if it is not a duration (no unit, an unknown unit, a negative number), "bounds" if it is
    longer than the longest `timedelta`.
    """
    if text.startswith("-"):
        raise Invalid("a duration cannot be negative", hint=_HINT, fault="type")
    if re.fullmatch(r"[0-9](?:_?[0-9])*", text):
        shown = text if len(text) <= _MOST_DIGITS else "90"
        raise Invalid("a duration needs a unit", hint=f"`{shown}d` for days, or {', '.join(UNITS)}", fault="type")
    total, shortest, at = 0, 0, 0
    while at < len(text) or not at:
        part = _PART.match(text, at)
        if part is None:
            raise Invalid("not a duration", hint=_HINT, fault="type")
        at = part.end()
        digits, unit = part.groups()
        length = _length(unit)
        if shortest and length >= shortest:
            what = "repeated" if length == shortest else "after a shorter unit"
            raise Invalid(
                f"the unit `{unit}` is {what}", hint="write units in descending order, as in `1h30m`", fault="type"
            )
        shortest = length
        digits = digits.replace("_", "").lstrip("0") or "0"
        total += int(digits) * length if len(digits) <= _MOST_DIGITS else _LONGEST + 1
    if text.endswith(" "):
        raise Invalid("not a duration", hint=_HINT, fault="type")
    if total > _LONGEST:
        raise Invalid("the duration is too long", hint=f"at most {write_duration(timedelta.max)}", fault="bounds")
    return timedelta(milliseconds=total)


def _length(unit: str) -> int:
    """Milliseconds of a unit. Raises Invalid for an unknown unit."""
    if unit in _MILLISECONDS:
        return _MILLISECONDS[unit]
    hint = f"units are {', '.join(UNITS)}"
    if unit in {"M", "mo"}:
        hint = "`m` is minutes, `months` is months"
    elif unit.lower() in _MILLISECONDS:
        hint = f"units are case-sensitive: `{unit.lower()}`"
    raise Invalid(f"unknown unit of time `{unit[:20]}`", hint=hint, fault="type")


def write_duration(duration: timedelta) -> str:
    """Shortest text that `read_duration` parses back to `duration`, rounded down to milliseconds.

    Only the units d, h, m, s and ms are used: months and years are not whole numbers of days.
    """
    rest = max(duration // timedelta(milliseconds=1), 0)
    parts = []
    for length, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m"), (_SECOND, "s"), (_MS, "ms")):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
