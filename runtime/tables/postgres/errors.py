"""Classifies errors of PostgreSQL: what the author of a statement can correct, and what may work later.

The codes are those of https://www.postgresql.org/docs/current/errcodes-appendix.html.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import asyncpg

from dslc.blocks.values.quantity import format_duration
from runtime.errors import SymbiontError
from runtime.suggestions import unknown_name
from runtime.tables.errors import QuotaExceeded, StatementError, TablesUnavailable
from runtime.tables.postgres import usage
from runtime.tables.postgres.aggregates import TOO_MUCH, too_much
from runtime.tables.postgres.connections import UserConnection
from runtime.tables.postgres.tokens import QUOTING_HINT, tokens_of
from runtime.tables.sql_database import MOST_SECONDS, ColumnInfo

DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""Errors that asyncpg raises; its timeouts are OSErrors too."""
_UNDEFINED_TABLE: Final = "42P01"
_UNDEFINED_COLUMN: Final = "42703"
_UNDEFINED_SETTING: Final = "42704"
_LONGEST: Final = 300
"""Maximum characters of a message of the server."""
_QUOTED: Final = re.compile(r'"([^"]+)"|«\s*(.+?)\s*»')

_LATER: Final[Sequence[tuple[str, str, str | None]]] = (
    ("53100", "the disk of PostgreSQL is full", "make room on the server's disk"),
    ("53300", "PostgreSQL has no free connection: earlier statements have not ended", "try again in a minute"),
    ("55P03", "other changes of these tables are running", "try again"),
    ("40", "another change of these tables was in the way", "try again"),
    ("28", "PostgreSQL refuses the login of the user's role", "allow its roles in pg_hba.conf with scram-sha-256"),
    ("08", "the connection to PostgreSQL was lost", None),
    ("57P", "PostgreSQL is stopping or starting", None),
    ("58", "PostgreSQL cannot read or write a file", "check the server's log"),
    ("XX", "PostgreSQL reports an internal error", "check the server's log"),
)
_WRONG: Final[Sequence[tuple[str, str | None]]] = (
    ("42883", "cast one side, such as value::text, or check the types of the columns"),
    ("42804", "cast the value, such as value::integer"),
    ("42P18", "tell the type of the parameter: ?::text"),
    ("23505", "use INSERT ... ON CONFLICT (column) DO UPDATE, or another value"),
    ("23502", "give this column a value, or a DEFAULT"),
    ("23503", "insert the row that it refers to first, or delete what refers to it"),
    ("22P02", "check the value and the type of the column"),
    ("2BP01", "add CASCADE, or drop what depends on it first"),
    ("42P07", "use CREATE TABLE IF NOT EXISTS, or another name"),
    ("42803", "put the column into GROUP BY, or into an aggregate such as max()"),
    ("53200", "read or combine less at once"),
    ("53400", "read, sort or combine less at once"),
    ("54", "write it in simpler SQL"),
)


def error_of(error: BaseException) -> SymbiontError:
    """Return the error to raise instead of one of asyncpg, of a socket, or of a timeout."""
    known = _error_without_row(error)
    if isinstance(known, (StatementError, QuotaExceeded)) and known.row is None:
        known.row = getattr(error, "row", None)
    return known


def _error_without_row(error: BaseException) -> SymbiontError:
    if isinstance(error, SymbiontError):
        return error
    if isinstance(error, asyncpg.QueryCanceledError):
        return too_long()
    if isinstance(error, asyncpg.PostgresError):
        return _of_server(error)
    if isinstance(error, asyncpg.UnsupportedClientFeatureError):
        return StatementError("a column of the result is a whole row, which is no value", hint="name its columns")
    if isinstance(error, (asyncpg.DataError, ValueError, OverflowError)) and not isinstance(error, OSError):
        return StatementError(f"a parameter does not fit: {_short(str(error))}")
    return TablesUnavailable("PostgreSQL cannot be reached", hint="try again later")


def too_long() -> StatementError:
    """Return the error of a statement that was cancelled."""
    return StatementError(
        f"the statement was cancelled after {format_duration(MOST_SECONDS)}; nothing was changed",
        hint="add conditions to each join, or a LIMIT, or an index",
    )


def _of_server(error: asyncpg.PostgresError) -> SymbiontError:
    state = error.sqlstate or "XX"
    for code, message, hint in _LATER:
        if state.startswith(code):
            return TablesUnavailable(message, hint=hint)
    if state == _UNDEFINED_SETTING and TOO_MUCH in str(error):
        return too_much()
    if state == "42501":
        return StatementError("that is not possible here", hint="use tables of your own")
    hint = next((hint for code, hint in _WRONG if state.startswith(code)), None)
    detail = getattr(error, "detail", None)
    text = _short(str(error.args[0]) if error.args else "")
    return StatementError(f"{text}: {_short(detail)}" if detail else text or "the statement failed", hint=hint)


def no_table(name: str, tables: Sequence[str]) -> StatementError:
    """Return the error for a table that does not exist."""
    error = unknown_name("table", name, tables, StatementError)
    assert isinstance(error, StatementError)
    return error


def no_column(name: str, columns: Sequence[ColumnInfo]) -> StatementError:
    """Return the error for a column that does not exist. `columns`: of the tables that the statement names."""
    error = unknown_name("column", name, sorted({each.name for each in columns}), StatementError)
    assert isinstance(error, StatementError)
    return error


async def error_with_hint(connection: UserConnection, error: BaseException) -> SymbiontError:
    """Return the error with the nearest of the user's own tables or columns, if a name is wrong."""
    known = error_of(error)
    code = getattr(error, "sqlstate", None)
    if code not in (_UNDEFINED_TABLE, _UNDEFINED_COLUMN) or connection.raw.is_closed():
        return known
    named = _name_in(error)
    if named is None:
        return known
    name = named.strip('"')
    with suppress(*DRIVER_ERRORS, SymbiontError):
        tables = await usage.columns_of_tables(connection)
        if code == _UNDEFINED_TABLE:
            return no_table(name, list(tables))
        columns = [column for each in tables.values() for column in each]
        # A text in double quotes is a name.
        return (
            StatementError(f"there is no column {named}", hint=QUOTING_HINT)
            if named[0] == '"'
            else no_column(name, columns)
        )
    return known


def _name_in(error: Any) -> str | None:
    """Return the name that an error is about, as it is written: at its position, or between the quotes of the message,
    which no language leaves out."""
    if error.position is None:
        quoted_name = _QUOTED.search(str(error.args[0]))
        return quoted_name and (quoted_name[1] or quoted_name[2])
    position = int(error.position) - 1
    tokens = [token for token in tokens_of(error.query) if token.start >= position]
    while len(tokens) > 2 and tokens[1].text == ".":
        tokens = tokens[2:]
    return tokens[0].text if tokens else None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
