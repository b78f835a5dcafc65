"""Statements in both dialects: what is known of one before a database reads it, and names in one."""

from __future__ import annotations

import re
from typing import Final

_READS: Final = re.compile(
    r"(?>(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*)(SELECT|VALUES|WITH)\b", re.IGNORECASE | re.DOTALL
)
_CHANGES: Final = re.compile(r"\b(?:INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)


def seems_to_read(statement: str) -> bool:
    """Return True if the statement looks as if it only reads; it is run so that it cannot do anything else. False for
    some that only read too: those with common table expressions and a word that changes something, also in a text."""
    found = _READS.match(statement)
    return found is not None and (found[1].upper() != "WITH" or _CHANGES.search(statement) is None)


def quoted(name: str) -> str:
    """Return the name of a table, a column, a schema or a role as a statement has it."""
    return '"' + name.replace('"', '""') + '"'
