"""Size and columns of a user's tables, read on a connection of the user's role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from runtime.tables.errors import StatementError
from runtime.tables.postgres.connections import UserConnection
from runtime.tables.sql_database import ColumnInfo
from runtime.tables.statement import quoted

_ROWS_OF_PAGE: Final = 291
"""Maximum rows of a page of 8 KiB."""
MOST_CHECKS: Final = 30
MOST_INDEXES: Final = 20
MOST_REFERENCES: Final = 30
MOST_COLUMNS: Final = 200
"""Maxima of each table: checks and indexes run with each change, where nothing can cancel them. References: its foreign
keys, and those to it."""

_SIZES: Final = (
    "SELECT pg_catalog.count(*) FILTER (WHERE c.relkind = 'r'),"
    " coalesce(pg_catalog.sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::pg_catalog.int8"
    " FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'S') AND c.relnamespace ="
    " (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1)"
)
_CROWDED: Final = (
    "SELECT c.relname,"
    " (SELECT pg_catalog.count(*) FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c')"
    " + (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute a"
    " WHERE a.attrelid = c.oid AND a.attgenerated <> '') AS checks,"
    " (SELECT pg_catalog.count(*) FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid) AS indexes,"
    " (SELECT pg_catalog.count(*) FROM pg_catalog.pg_constraint k"
    " WHERE k.contype = 'f' AND c.oid IN (k.conrelid, k.confrelid)) AS references,"
    " c.relnatts AS columns"
    " FROM pg_catalog.pg_class c WHERE c.relkind = 'r' AND c.relnamespace ="
    " (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1)"
)
_COLUMNS: Final = (
    "SELECT c.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull"
    " FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_attribute a"
    " ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
    " WHERE c.relkind = 'r' AND c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1)"
    " ORDER BY c.relname, a.attnum"
)

_MOST: Final = (
    ("checks", MOST_CHECKS),
    ("indexes", MOST_INDEXES),
    ("references", MOST_REFERENCES),
    ("columns", MOST_COLUMNS),
)


class TableUsage(NamedTuple):
    """The number of a user's tables, and the bytes of them, with indexes and what is deleted but not yet reclaimed."""

    tables: int
    bytes: int


async def measure(connection: UserConnection) -> TableUsage:
    """Return what the tables take, with what the present transaction has changed."""
    row = await (await connection.prepare(_SIZES)).fetchrow(connection.login.name)
    return TableUsage(*row)


async def lock(connection: UserConnection) -> None:
    """Wait until no other connection of the user changes anything; until the end of the transaction."""
    statement = await connection.prepare("SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 1))")
    await statement.fetchval(connection.login.name)


async def rows_beyond(connection: UserConnection, table: str, most: int, size: int) -> int | None:
    """Return the number of rows of a table if there are more than `most`, else None. `size`: bytes of all tables."""
    if size // 8192 * _ROWS_OF_PAGE <= most:
        return None
    statement = await connection.prepare(
        f"SELECT pg_catalog.count(*) FROM {quoted(table)}"  # noqa: S608
    )
    count = int(await statement.fetchval())
    return count if count > most else None


async def check_definitions(connection: UserConnection) -> None:
    """Raise StatementError if a table has too many columns, indexes, or checks and generated columns."""
    for row in await (await connection.prepare(_CROWDED)).fetch(connection.login.name):
        for name, most in _MOST:
            if row[name] > most:
                raise StatementError(f"the table {row['relname']} would have more than {most} {name}")


async def longest_row(connection: UserConnection, table: str) -> int:
    """Return the bytes of the longest row of a table, as text."""
    query = f"SELECT pg_catalog.max(pg_catalog.octet_length((t.*)::pg_catalog.text)) FROM {quoted(table)} AS t"  # noqa: S608
    return await connection.raw.fetchval(query) or 0


async def columns_of_tables(connection: UserConnection) -> dict[str, Sequence[ColumnInfo]]:
    """Return the user's tables with their columns, by name."""
    tables: dict[str, list[ColumnInfo]] = {}
    for row in await (await connection.prepare(_COLUMNS)).fetch(connection.login.name):
        columns = tables.setdefault(row["relname"], [])
        if row["attname"] is not None:
            columns.append(ColumnInfo(row["attname"], row["type"], not row["attnotnull"]))
    return dict(tables)
