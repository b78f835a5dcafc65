"""Reads JSON that is broken, by guessing what was meant."""

from __future__ import annotations

from typing import Any, Final

MAX_CHARACTERS: Final = 16_384
"""Maximum length of a text that is repaired; it takes some microseconds a character."""
_MAX_BRACKETS: Final = 400
"""Maximum number of opening brackets: the time grows with their number and the length."""


def repaired(text: str) -> Any:
    """Return the object or the list of objects that a broken JSON text may mean; None if there is none, or the text is
    too long."""
    if len(text) > MAX_CHARACTERS or text.count("{") + text.count("[") + text.count("(") > _MAX_BRACKETS:
        return None
    from json_repair import loads

    try:
        value = loads(text, skip_json_loads=True)
    except (ValueError, RecursionError, IndexError):
        return None
    if isinstance(value, list) and not all(isinstance(each, dict) for each in value):
        return None
    return value if isinstance(value, dict | list) and value else None
