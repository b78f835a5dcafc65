"""Translates driver errors to one line each, without passwords."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from runtime.database.location import DatabaseLocation
from runtime.errors import Away, UsageError


class Unavailable(Away):
    """The database cannot be used at present: nothing was stored, and a retry may succeed.

    `fatal`: the disk itself failed (an fsync error). Acknowledged data may not be durable, so the process must stop.
    """

    def __init__(self, message: str, *, hint: str | None = None, fatal: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.fatal = fatal


class Collision(Unavailable):
    """Another process changed the same rows: roll back and decide again, which `GroupCommit` does."""

    def __init__(self, message: str = "another daemon stored the same rows in the meantime") -> None:
        super().__init__(message)


def unavailable(error: BaseException, location: DatabaseLocation) -> Unavailable | None:
    """Translate `error` to `Unavailable`, or None if it is about the data or the program, not about the database."""
    if isinstance(error, Unavailable):
        return error
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        if code not in _SQLITE_STATES:
            return None
        if code == sqlite3.SQLITE_IOERR and _is_over_quota(location):
            return Unavailable(f"{location.label}: the disk quota is used up")
        return Unavailable(f"{location.label}: {cause}", fatal=code == sqlite3.SQLITE_IOERR)
    state = _state(cause)
    if state.startswith("40"):  # serialisation failure, deadlock
        return Collision(f"{location.label}: {_first_line(cause)}")
    lost = isinstance(error, (OperationalError, InterfaceError, PoolTimeout)) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    )
    if lost or isinstance(cause, OSError) or state[:2] in _SERVER_STATES or state == _READ_ONLY:
        return Unavailable(f"{location.label}: {_first_line(cause)}")
    return None


def opening_error(error: BaseException, location: DatabaseLocation) -> UsageError | None:
    """Translate an error at opening to one line with a hint, or None if it is unknown here."""
    found = _opening(error, location)
    if found is not None:
        known = unavailable(error, location)
        found.may_pass = known is not None and not _sqlite_name(error).startswith(_LASTING)
    return found


def _opening(error: BaseException, location: DatabaseLocation) -> UsageError | None:
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        name = _sqlite_name(error)
        for prefix, what, hint in _SQLITE:
            if name.startswith(prefix):
                return UsageError(f"{location.label}: {what}", hint=hint)
        return UsageError(f"{location.label}: {cause}")
    if location.kind == "postgresql" and isinstance(cause, ValueError):
        # The message may quote any part of the URL.
        return UsageError(f"{location.label}: this URL cannot be read", hint="write postgresql://USER@HOST:PORT/NAME")
    if location.kind == "postgresql" and (isinstance(error, (DBAPIError, OSError)) or _is_asyncpg(cause)):
        name = type(getattr(cause, "__cause__", None) or cause).__name__
        hint = next(
            (hint for part, hint in _POSTGRESQL if part in name), "check that the server is running, and the URL"
        )
        return UsageError(f"{location.label}: {_first_line(cause)}", hint=hint)
    return None


def _is_over_quota(location: DatabaseLocation) -> bool:
    """True if files beside the database cannot grow because of a quota. SQLite distinguishes a full disk (ENOSPC) from
    a failing one, but not a quota (EDQUOT)."""
    if location.path is None:
        return False
    try:
        with tempfile.TemporaryFile(dir=location.path.parent) as file:
            file.write(bytes(_GROWTH))
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno == errno.EDQUOT
    return False


_GROWTH = 64 * 1024
"""Bytes written to test whether a file can grow."""

_SQLITE_STATES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_READONLY,
}

_LASTING = ("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_READONLY", "SQLITE_CANTOPEN")
"""Beginnings of the names of errors that only a person can mend."""


def _sqlite_name(error: BaseException) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return getattr(cause, "sqlite_errorname", "")


_SQLITE = (
    ("SQLITE_NOTADB", "this file is not a database", "name another file, or move this one"),
    ("SQLITE_CORRUPT", "the database is damaged", "restore it from a backup"),
    ("SQLITE_FULL", "the disk is full", "free some space and start again"),
    ("SQLITE_READONLY", "the database cannot be written", "check the permissions of the file and its folder"),
    ("SQLITE_CANTOPEN", "the database cannot be opened", "check the permissions of the file and its folder"),
    ("SQLITE_BUSY", "another program has locked the database", "stop it first"),
    ("SQLITE_IOERR", "the disk failed", "check the disk and the system's log"),
)

_POSTGRESQL = (
    ("InvalidPassword", "check the user and the password in the URL"),
    ("InvalidAuthorization", "check the user and the password in the URL"),
    ("InvalidCatalogName", "create the database first"),
    ("InsufficientPrivilege", "grant the user the right to create tables"),
    ("TooManyConnections", "raise max_connections or stop other clients"),
)


def _is_asyncpg(error: object) -> bool:
    return type(error).__module__.split(".")[0] == "asyncpg"


_SERVER_STATES = {"08", "53", "57"}
"""PostgreSQL's SQLSTATE classes for a lost connection, insufficient resources and operator intervention."""

_READ_ONLY = "25006"
"""SQLSTATE of a write to a standby, or to a replica that replaced its primary and is not promoted yet."""


def _state(error: object) -> str:
    """Return the SQLSTATE, or an empty string."""
    state = getattr(error, "sqlstate", None) or getattr(getattr(error, "__cause__", None), "sqlstate", None)
    return state if isinstance(state, str) else ""


def _first_line(error: object) -> str:
    text = str(error).strip() or type(error).__name__
    line = text.splitlines()[0]
    # SQLAlchemy prefixes the message with the driver's class.
    return line.partition(">: ")[2] or line if line.startswith("<class ") else line
