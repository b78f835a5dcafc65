"""What SQLite's errors mean for an index: begin anew, or say what a person can do."""

from __future__ import annotations

import sqlite3

from runtime.search.errors import IndexFailed


class Damaged(Exception):  # noqa: N818 - named for the decision: the file is thrown away and made again
    """The file is no index of ours, or not any more."""


_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_READS_TOO_LITTLE = {sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS}
_HINTS = {
    sqlite3.SQLITE_FULL: "make room on the disk",
    sqlite3.SQLITE_IOERR: "make room on the disk, or look at what the system's log says of it",
    sqlite3.SQLITE_CANTOPEN: "check the rights on the file and its folder",
    sqlite3.SQLITE_READONLY: "check the rights on the file and its folder",
    sqlite3.SQLITE_PERM: "check the rights on the file and its folder",
    sqlite3.SQLITE_BUSY: "another process uses the file: stop it",
}


def judged(error: Exception, name: str) -> Damaged | IndexFailed:
    """What to raise in place of SQLite's error; `name` is the file, or says that there is none."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    kind = code & 0xFF
    if kind in _DAMAGE or code in _READS_TOO_LITTLE:
        return Damaged(str(error))
    return IndexFailed(
        f"the index {name} could not be read or written: {error}",
        hint=_HINTS.get(kind, "delete it while nothing uses it: it is made again from the store"),
    )


def os_failed(error: OSError, name: str) -> IndexFailed:
    """What to raise in place of the system's error."""
    reason = (error.strerror or "it cannot be opened").lower()
    return IndexFailed(f"the index {name} cannot be made: {reason}", hint="check the rights on its folder and its room")
