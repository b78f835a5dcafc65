"""Sizes as the language writes them: `256KB` is 256,000 bytes, `5GiB` is 5 × 1024³."""

from __future__ import annotations

import re

from dslc.blocks.values.invalid import Invalid

UNITS = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("KMGTP", 1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGTP", 1)},
}
"""Bytes of each unit. Units are case-sensitive."""

LARGEST = 2**63 - 1  # fits a database column and the file offsets of every platform
_MOST_DIGITS = 40
_SIZE = re.compile(r"([0-9](?:_?[0-9])*(?:\.[0-9](?:_?[0-9])*)?) ?([A-Za-z]*)")
_HINT = "such as `256KB` or `5GiB`"


def read_size(text: str) -> int:
    """Parse a size: a number, which may have decimals, and one unit. Returns bytes.

    Raises Invalid: "type" for what is not a size (no unit, an unknown unit, part of a byte), "bounds" when too large.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        message = "a size cannot be negative" if text.startswith("-") else "not a size"
        raise Invalid(message, hint=_HINT, fault="type")
    number, unit = match.groups()
    if not unit:
        raise Invalid("a size needs a unit", hint=f"{_HINT}; units are {', '.join(UNITS)}", fault="type")
    if unit not in UNITS:
        near = next((known for known in UNITS if known.lower() == unit.lower()), None)
        hint = f"units are case-sensitive: `{near}`" if near else f"units are {', '.join(UNITS)}"
        raise Invalid(f"unknown unit of size `{unit[:20]}`", hint=hint, fault="type")
    whole, _, decimals = number.replace("_", "").partition(".")
    whole, decimals = whole.lstrip("0") or "0", decimals.rstrip("0")
    if len(whole) > _MOST_DIGITS:
        raise Invalid("the size is too large", hint=f"at most {LARGEST}B", fault="bounds")
    if len(decimals) > _MOST_DIGITS:
        raise Invalid("not a whole number of bytes", hint=_HINT, fault="type")
    size, part = divmod(int(whole + decimals) * UNITS[unit], 10 ** len(decimals))
    if part:
        raise Invalid("not a whole number of bytes", hint=_HINT, fault="type")
    if size > LARGEST:
        raise Invalid("the size is too large", hint=f"at most {LARGEST}B", fault="bounds")
    return int(size)


def write_size(size: int) -> str:
    """Shortest text with a whole number that `read_size` parses back to `size`."""
    candidates = (f"{size // length}{unit}" for unit, length in UNITS.items() if size % length == 0)
    return min(candidates, key=len) if size else "0B"
