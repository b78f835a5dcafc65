"""Classifies SQLite's errors: rebuild the index, or report what a person can do."""

from __future__ import annotations

import sqlite3

from runtime.search.errors import IndexFailed


class DamagedIndex(Exception):  # noqa: N818 - named for the decision: the file is thrown away and made again
    """The file is not, or no longer, an index of this version."""


_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_READS_TOO_LITTLE = {sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS}
_HINTS = {
    sqlite3.SQLITE_FULL: "make room on the disk",
    sqlite3.SQLITE_IOERR: "make room on the disk, or check the system's log",
    sqlite3.SQLITE_CANTOPEN: "check the permissions of the file and its folder",
    sqlite3.SQLITE_READONLY: "check the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "check the permissions of the file and its folder",
    sqlite3.SQLITE_BUSY: "another process uses the file: stop it",
}


def index_error(error: Exception, name: str) -> DamagedIndex | IndexFailed:
    """Return the error to raise instead of SQLite's; `name` is the file or "in memory"."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    kind = code & 0xFF
    if kind in _DAMAGE or code in _READS_TOO_LITTLE:
        return DamagedIndex(str(error))
    return IndexFailed(
        f"the index {name} could not be read or written: {error}",
        hint=_HINTS.get(kind, "delete it while no process uses it: it is rebuilt from the store"),
    )


def file_error(error: OSError, name: str) -> IndexFailed:
    """Return the error to raise instead of an OSError."""
    reason = (error.strerror or "it cannot be opened").lower()
    return IndexFailed(
        f"the index {name} cannot be created: {reason}", hint="check the permissions of its folder and the free space"
    )
