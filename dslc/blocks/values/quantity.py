"""Durations (`90d`, `1h30m`) and sizes (`256KB`, `5GiB`), read and printed by humanfriendly.

humanfriendly accepts more than the language: numbers without a unit, units in any case, and text after a unit. So the
form is checked here, and humanfriendly gives the length of a unit; numbers stay exact. It has no months, and years of
364 days; both are defined here as in Rust's humantime: 30.44 and 365.25 days. It is imported when it is used.
"""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache

from dslc.blocks.values.invalid import Invalid

TIME_UNITS: tuple[tuple[str, ...], ...] = (
    ("y", "yr", "yrs", "year", "years"),
    ("months", "month"),
    ("w", "wk", "wks", "week", "weeks"),
    ("d", "day", "days"),
    ("h", "hr", "hrs", "hour", "hours"),
    ("m", "min", "mins", "minute", "minutes"),
    ("s", "sec", "secs", "second", "seconds"),
    ("ms", "millisecond", "milliseconds"),
)
"""Spellings of each unit of time, the usual one first; longest unit first. Units are case-sensitive."""
SIZE_UNITS = ("B", *(f"{prefix}{binary}B" for binary in ("", "i") for prefix in "KMGTPE"))
"""Units of size. Units are case-sensitive."""
LARGEST_SIZE = 2**63 - 1  # fits a database column and the file offsets of every platform

_USUAL = {spelling: unit for unit, *more in TIME_UNITS for spelling in (unit, *more)}
_OWN_MS = {"y": 31_557_600_000, "months": 2_630_016_000}
_MS = timedelta(milliseconds=1)
_LONGEST_NUMBER = 100  # characters; int() refuses very long numbers
_NUMBER = r"[0-9](?:_?[0-9])*"
_PART = re.compile(rf"({_NUMBER}) *([A-Za-z]+) *")
_SIZE = re.compile(rf"({_NUMBER}(?:\.{_NUMBER})?) ?([A-Za-z]*)")
_DURATION_HINT = "such as `90d`, `1h30m` or `250ms`"
_SIZE_HINT = "such as `256KB` or `5GiB`"


def read_duration(text: str) -> timedelta:
    """Parse a duration: whole numbers, each with a unit, in descending order and not repeated. A unit may have blanks
    before and after it (`90 days`, in quotes).

    Raises Invalid: "type" if it is not a duration (no unit, an unknown unit, a negative number), "bounds" if it is
    longer than the longest `timedelta`.
    """
    if text.startswith("-"):
        raise Invalid("a duration cannot be negative", hint=_DURATION_HINT, fault="type")
    if re.fullmatch(_NUMBER, text):
        shown = text if len(text) < 20 else "90"
        units = ", ".join(unit for unit, *_ in reversed(TIME_UNITS))
        raise Invalid("a duration needs a unit", hint=f"`{shown}d` for days, or {units}", fault="type")
    if text.endswith(" ") or not re.fullmatch(f"(?:{_PART.pattern})+", text):
        raise Invalid("not a duration", hint=_DURATION_HINT, fault="type")
    total, shortest = 0, None
    for number, unit in _PART.findall(text):
        length = unit_ms(unit)
        if shortest is not None and length >= shortest:
            what = "repeated" if length == shortest else "after a shorter unit"
            hint = "write units in descending order, as in `1h30m`"
            raise Invalid(f"the unit `{unit}` is {what}", hint=hint, fault="type")
        shortest = length
        total += int(number) * length if len(number) <= _LONGEST_NUMBER else timedelta.max // _MS + 1
    if total > timedelta.max // _MS:
        raise Invalid("the duration is too long", hint=f"at most {write_duration(timedelta.max)}", fault="bounds")
    return timedelta(milliseconds=total)


@cache
def unit_ms(unit: str) -> int:
    """Return the milliseconds of a unit of time. Raises Invalid for an unknown unit."""
    if unit not in _USUAL:
        hint = f"units are {', '.join(unit for unit, *_ in reversed(TIME_UNITS))}"
        if unit in {"M", "mo"}:
            hint = "`m` is minutes, `months` is months"
        elif unit.lower() in _USUAL:
            hint = f"units are case-sensitive: `{unit.lower()}`"
        raise Invalid(f"unknown unit of time `{unit[:20]}`", hint=hint, fault="type")
    from humanfriendly import parse_timespan

    usual = _USUAL[unit]
    return _OWN_MS.get(usual) or round(1000 * parse_timespan(f"1 {usual}"))


def write_duration(duration: timedelta) -> str:
    """Return the duration, rounded down to milliseconds, as the language writes it: `1d1h1m1s`. Days are the longest
    unit: longer ones are no whole numbers of days, or another number of days in humanfriendly."""
    from humanfriendly import format_timespan

    days, rest = divmod(max(duration, timedelta()) // _MS * _MS, timedelta(days=1))
    parts = re.findall(r"([0-9]+) (\w+)", format_timespan(rest.total_seconds(), detailed=True))
    return "".join(f"{number}{_USUAL[unit]}" for number, unit in ([(days, "d")] if days else []) + parts) or "0s"


def format_duration(seconds: float) -> str:
    """Return a duration of less than a year as people read it: `1 hour and 30 minutes`, `0.25 seconds`."""
    from humanfriendly import format_timespan

    return str(format_timespan(seconds, max_units=len(TIME_UNITS)))


def read_size(text: str) -> int:
    """Parse a size: a number, which may have decimals, and one unit. Returns bytes.

    Raises Invalid: "type" for what is not a size (no unit, an unknown unit, part of a byte), "bounds" when too large.
    """
    from fractions import Fraction

    match = _SIZE.fullmatch(text)
    if match is None:
        message = "a size cannot be negative" if text.startswith("-") else "not a size"
        raise Invalid(message, hint=_SIZE_HINT, fault="type")
    number, unit = match.groups()
    if not unit:
        hint = f"{_SIZE_HINT}; units are {', '.join(SIZE_UNITS)}"
        raise Invalid("a size needs a unit", hint=hint, fault="type")
    length = unit_bytes(unit)
    size = Fraction(number) * length if len(number) <= _LONGEST_NUMBER else Fraction(LARGEST_SIZE + 1)
    if size > LARGEST_SIZE:
        raise Invalid("the size is too large", hint=f"at most {LARGEST_SIZE}B", fault="bounds")
    if size.denominator != 1:
        raise Invalid("not a whole number of bytes", hint=_SIZE_HINT, fault="type")
    return int(size)


@cache
def unit_bytes(unit: str) -> int:
    """Return the bytes of a unit of size. Raises Invalid for an unknown unit."""
    from humanfriendly import parse_size

    if unit not in SIZE_UNITS:
        near = next((known for known in SIZE_UNITS if known.lower() == unit.lower()), None)
        hint = f"units are case-sensitive: `{near}`" if near else f"units are {', '.join(SIZE_UNITS)}"
        raise Invalid(f"unknown unit of size `{unit[:20]}`", hint=hint, fault="type")
    return int(parse_size(f"1 {unit}"))


def write_size(size: int) -> str:
    """Return the size as the language writes it, exactly: `25MB`, `1.5KiB`, `1234567B`."""
    shown = format_size(size)
    return shown.replace(" ", "") if _is_exact(shown, size) else f"{size}B"


def format_size(size: int) -> str:
    """Return the size as people read it: `25 MiB` if that is exact, else decimal and rounded: `24.9 MB`."""
    import humanfriendly

    binary = str(humanfriendly.format_size(size, binary=True))
    return binary if _is_exact(binary, size) else str(humanfriendly.format_size(size))


def _is_exact(shown: str, size: int) -> bool:
    from fractions import Fraction

    number, unit = shown.split(" ")
    return unit in SIZE_UNITS and Fraction(number) * unit_bytes(unit) == size
