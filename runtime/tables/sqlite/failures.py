"""Errors of SQLite in words that the author of a statement can act on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import apsw

from runtime.tables.sqlite.messages import Failure, Reason

_PARAMETERS: Final = (
    "texts are in single quotes, names in double quotes; best pass values as parameters: "
    'INSERT INTO notes (text) VALUES (?) with params ["it\'s"]'
)
_NAME: Final = re.compile(r"no such (table|column): (?:main\.)?(.+?)(?: - should this be a string literal.*)?$")
_CONSTRAINTS: Final = {
    "UNIQUE": "INSERT … ON CONFLICT can update or leave the row that is there",
    "FOREIGN": "the row that is referred to must exist: insert it before, and delete it after those that refer to it",
}
_NO_COLUMN: Final = re.compile(r"table .+ has no (column) named (.+)")
_SYNTAX: Final = re.compile(r'near "|unrecognized token|incomplete input|string literal')
_RESTORE: Final = "restore it from a backup"
_CASES: Final[tuple[tuple[type[Exception], Reason, str | None, str | None], ...]] = (
    (apsw.InterruptError, "time", "the statement took too long", None),
    (apsw.TooBigError, "statement", "a row or a value has more than 65,536 bytes", "keep rows and values smaller"),
    (apsw.NoMemError, "statement", "the statement needs too much memory", "sort or group fewer rows"),
    (MemoryError, "statement", "the statement needs too much memory", "sort or group fewer rows"),
    (apsw.ConstraintError, "statement", None, None),
    (apsw.FullError, "disk", "the disk is full", "free some space"),
    (apsw.IOError, "disk", "the disk failed", "check the disk and the system's log"),
    (apsw.CorruptError, "file", "is damaged, or sealed with another key", _RESTORE),
    (apsw.NotADBError, "file", "is damaged, or sealed with another key", _RESTORE),
    (apsw.CantOpenError, "file", "cannot be opened", "check the permissions of its folder"),
    (apsw.ReadOnlyError, "file", "cannot be written", "check its permissions"),
    (apsw.BusyError, "file", "is used by another program", "stop it first"),
    (UnicodeDecodeError, "statement", "a text of the result is not valid UTF-8", "select hex(column)"),
    (OverflowError, "statement", "an integer has more than 64 bits", "store it as text"),
    (apsw.BindingsError, "statement", None, _PARAMETERS),
    (apsw.Error, "statement", None, None),
    (OSError, "disk", None, "check the disk and the system's log"),
    (Exception, "statement", None, None),
)
"""The reason, the message (None: that of the error) and the hint for each kind of error; the first that fits."""


def failure_of(error: Exception, refusal: str | None, known: Callable[[str], list[str]]) -> Failure:
    """Return what is wrong. `refusal`: what the authorizer refused. `known`: returns the names of a kind."""
    # That of the system contains the path.
    message = f"the disk failed: {(error.strerror or '').lower()}" if isinstance(error, OSError) else str(error)
    if refusal is not None:
        return Failure("statement", refusal)
    if found := _NAME.match(message) or _NO_COLUMN.match(message):
        if found[2].startswith('"'):
            return Failure("statement", f"there is no column {found[2]}", _PARAMETERS)
        return Failure("table" if found[1] == "table" else "column", found[2], known=known(found[1]))
    _, reason, text, hint = next(case for case in _CASES if isinstance(error, case[0]))
    if isinstance(error, apsw.ConstraintError):
        hint = _CONSTRAINTS.get(message.partition(" ")[0])
    elif hint is None and _SYNTAX.search(message):
        hint = _PARAMETERS
    return Failure(reason, text or message, hint)
