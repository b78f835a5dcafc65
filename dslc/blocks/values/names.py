"""Names of blocks and of rows."""

from __future__ import annotations

import re
import sys

from dslc.blocks.values.invalid import Invalid

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_LONGEST = 100_000  # characters searched for names
NAME_RULE = "1 to 64 letters, digits, `_`, `-` or `.`"


def is_name(text: str) -> bool:
    """True if `text` is 1 to 64 ASCII letters, digits, `_`, `-`, `.`, and not `.` or `..`."""
    return _NAME.fullmatch(text) is not None and text not in {".", ".."}


def possible_names(text: str, start: int = 0, end: int = sys.maxsize) -> set[str]:
    """Words between two positions that could be names. Only the first 100,000 characters are searched."""
    return set(_WORD.findall(text, start, min(end, start + _LONGEST)))


def valid_name(name: str) -> str:
    """Return `name`. Raises Invalid unless `is_name`."""
    if not is_name(name):
        raise Invalid("invalid name", hint=f"a name has {NAME_RULE}")
    return name
