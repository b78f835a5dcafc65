"""Names of blocks and of rows."""

from __future__ import annotations

import re

from dslc.blocks.values.invalid import Invalid

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NAME_RULE = "1 to 64 letters, digits, `_`, `-` or `.`"


def is_name(text: str) -> bool:
    """True if `text` is 1 to 64 ASCII letters, digits, `_`, `-`, `.`, and not `.` or `..`."""
    return _NAME.fullmatch(text) is not None and text not in {".", ".."}


def valid_name(name: str) -> str:
    """Return `name`. Raises Invalid unless `is_name`."""
    if not is_name(name):
        raise Invalid("invalid name", hint=f"a name has {NAME_RULE}")
    return name
