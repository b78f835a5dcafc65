"""The SQL tables of a call's user."""

from __future__ import annotations

from runtime.tables.errors import TablesUnavailable
from runtime.tables.sql_database import SqlDatabase
from runtime.tables.storage import UserStorage
from runtime.tools.context import Context


def tables_of(context: Context) -> tuple[SqlDatabase, UserStorage]:
    """Return the tables of all users, and what each may store. Raises TablesUnavailable."""
    if context.sql is None or context.storage is None or context.no_tables is not None:
        raise TablesUnavailable("SQL tables are unavailable here", hint="`symbi readiness` has the reason")
    return context.sql, context.storage
