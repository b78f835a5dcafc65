"""Classifies PostgreSQL's errors: retry, rebuild the index, or report what a person can do.

The codes are those of https://www.postgresql.org/docs/current/errcodes-appendix.html.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from runtime.search.errors import IndexFailed

_AGAIN = ("40",)  # deadlock, serialisation
_LOST = ("08", "57P01", "57P02", "57P05")
_GONE = frozenset({"3F000", "42P01", "42703", "42883", "42704"})
_HINTS = (
    ("28", "check the user and the password in the URL"),
    ("3D000", "create the database first"),
    ("42501", "grant this user the rights that docs/indexes.md lists"),
    ("53100", "make room on the server's disk"),
    ("53300", "raise the server's max_connections, or lower `pool`"),
    ("53", "the server lacks memory or room"),
    ("57014", "raise `timeout`, or check the load of the server"),
    ("XX", "drop the schema: it is rebuilt from the store"),
)


class RebuildNeeded(Exception):  # noqa: N818 - named for the decision: the tables are looked at, and made again
    """The tables are missing or of another version; `pool` has the connections that found it."""

    def __init__(self, reason: str, pool: Any) -> None:
        super().__init__(reason)
        self.pool = pool


def is_connection_lost(error: BaseException) -> bool:
    """True if the connection was lost or collided with another, so that a retry may succeed."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith((*_LOST, *_AGAIN))
    # The driver's own error arises when a connection breaks between two operations.
    broken = (asyncpg.InterfaceError, asyncpg.InternalClientError, ConnectionError)
    return isinstance(error, broken) and not isinstance(error, ValueError)


def is_table_missing(error: BaseException) -> bool:
    """True if one of our tables, columns or functions is missing."""
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate in _GONE


def index_error(error: BaseException, shown: str) -> IndexFailed:
    """Return the error to raise; `shown` names the server and database, without a password."""
    what = f"the index in {shown}"
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return IndexFailed(
            f"{what}: no answer in time", hint="check that the server is running, and that `timeout` is long enough"
        )
    if isinstance(error, (asyncpg.DataError, UnicodeEncodeError, ValueError)) and not isinstance(error, OSError):
        # Its text may quote data that was to be written.
        return IndexFailed(f"{what} refuses text that is not valid Unicode, or a number out of range")
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        hint = next((hint for code, hint in _HINTS if state.startswith(code)), "check the server's log")
        return IndexFailed(f"{what}: {_first_line(error)}", hint=hint)
    return IndexFailed(
        f"{what} cannot be reached: {_first_line(error)}", hint="check that the server is running, and the URL"
    )


def _first_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and not error.filename:
        return error.strerror.lower()
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
