"""Numbers as the language writes them: `0.7`, `-1`, `10_000`."""

from __future__ import annotations

import re

from dslc.blocks.values.invalid import Invalid

_INTEGER = re.compile(r"-?[0-9](?:_?[0-9])*")
_NUMBER = re.compile(r"-?[0-9](?:_?[0-9])*(?:\.[0-9](?:_?[0-9])*)?")
_LARGEST = 2**63 - 1  # maximum of a database column
_MOST_DIGITS = 19


def read_integer(text: str) -> int:
    """Return the integer in `text`. Raises Invalid: "type" for other text, "bounds" if it exceeds 64 bits."""
    if not _INTEGER.fullmatch(text):
        raise Invalid("expected a whole number", hint="such as `10` or `10_000`", fault="type")
    digits = text.replace("_", "").lstrip("-").lstrip("0") or "0"
    value = int(digits) if len(digits) <= _MOST_DIGITS else _LARGEST + 1
    if value > _LARGEST:
        raise Invalid("the number is too large", hint=f"at most {_LARGEST}", fault="bounds")
    return -value if text.startswith("-") else value


def read_number(text: str) -> float:
    """Return the number in `text`. Raises Invalid: "type" for other text, "bounds" if it exceeds 64 bits."""
    if not _NUMBER.fullmatch(text):
        raise Invalid("expected a number", hint="such as `0.7`", fault="type")
    read_integer(text.partition(".")[0])
    return float(text.replace("_", ""))


def read_scalar(text: str) -> int | float:
    """Return an integer if `text` is one, else a float. Raises Invalid."""
    return read_integer(text) if _INTEGER.fullmatch(text) else read_number(text)
