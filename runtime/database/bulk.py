"""Statements for many rows, for both databases.

The driver is called once per statement: on SQLite each call releases the interpreter lock and has to win it back from a
busy event loop, on PostgreSQL each is a round trip. Many rows are split into powers of two, so that few statements are
prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

LARGEST = 256
"""Maximum number of rows in one statement."""

EXACT = 64
"""Up to this number of rows there is a statement for each number of rows: one call to the driver."""

PARAMETERS = 30_000
"""Maximum number of parameters in one statement: SQLite accepts 32,766 and PostgreSQL 32,767."""

_DIALECTS = {"sqlite": sqlite.dialect(), "postgresql": postgresql.dialect()}  # type: ignore[no-untyped-call]

_IGNORE = " ON CONFLICT DO NOTHING"

Rows = Sequence[tuple[Any, ...]]


class Statement(NamedTuple):
    """A statement in the driver's own form, its parameters, and the number of rows that it should insert."""

    sql: str
    parameters: tuple[Any, ...]
    rows: int


def insert_statements(dialect: str, table: Table, columns: tuple[str, ...], rows: Rows) -> list[Statement]:
    """Return the statements with which `insert` inserts `rows`, ignoring rows that violate a unique key."""
    return [
        Statement(_insert(dialect, table, columns, len(part), _IGNORE), _flat(part), len(part))
        for part in _parts(_checked_rows(table, columns, rows), len(columns))
    ]


def add_statements(
    dialect: str, table: Table, keys: tuple[str, ...], columns: tuple[str, ...], rows: Rows
) -> list[Statement]:
    """Return the statements that add to `columns` of the rows with these `keys`, and insert those that are missing.

    The rows are locked in the order of `rows`, in which each key occurs once.
    """
    names = keys + columns
    changes = ", ".join(f"{name} = {table.name}.{name} + excluded.{name}" for name in columns)
    conflict = f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changes}"
    return [
        Statement(_insert(dialect, table, names, len(part), conflict), _flat(part), len(part))
        for part in _parts(_checked_rows(table, names, rows), len(names))
    ]


def insert(connection: Connection, table: Table, columns: tuple[str, ...], rows: Rows, *, ignore: bool = False) -> int:
    """Insert `rows`, values in the order of `columns`; return the number of inserted rows.

    `ignore`: leave out rows that violate a unique key instead of raising.
    """
    made = 0
    for part in _parts(_checked_rows(table, columns, rows), len(columns)):
        statement = _insert(connection.dialect.name, table, columns, len(part), _IGNORE if ignore else "")
        made += connection.exec_driver_sql(statement, _flat(part)).rowcount
    return made


def update(connection: Connection, table: Table, keys: tuple[str, ...], columns: tuple[str, ...], rows: Rows) -> int:
    """Set `columns` of the rows identified by `keys`; each of `rows` has the values of the keys, then those of the
    columns."""
    changed = 0
    names = keys + columns
    for part in _parts(_checked_rows(table, names, rows), len(names)):
        statement = _update(connection.dialect.name, table, keys, columns, len(part))
        changed += connection.exec_driver_sql(statement, _flat(part)).rowcount
    return changed


def delete(connection: Connection, table: Table, key: str, values: Sequence[Any]) -> int:
    """Delete the rows whose column `key` has one of `values`; return their number."""
    gone = 0
    for part in _parts([(value,) for value in values], 1):
        statement = _delete(connection.dialect.name, table, key, len(part))
        gone += connection.exec_driver_sql(statement, _flat(part)).rowcount
    return gone


def find(
    connection: Connection, table: Table, keys: tuple[str, ...], columns: tuple[str, ...], rows: Rows, *, lock: str = ""
) -> list[tuple[Any, ...]]:
    """Return `keys` and `columns` of the rows whose keys are in `rows`; a row may occur more than once.

    `lock`: such as `NO KEY UPDATE`, for PostgreSQL; SQLite's writer locks the whole database.
    """
    found: list[tuple[Any, ...]] = []
    for part in _parts(_checked_rows(table, keys, rows), len(keys)):
        statement = _find(connection.dialect.name, table, keys, columns, len(part), lock)
        found += connection.exec_driver_sql(statement, _flat(part)).all()
    return found


def _parts(rows: Rows, width: int) -> Iterator[Rows]:
    """Split `rows`: one part if there are few, else parts whose lengths are powers of two, longest first."""
    if 0 < len(rows) <= EXACT and len(rows) * width <= PARAMETERS:
        yield rows
        return
    start = 0
    size = LARGEST
    while size * width > PARAMETERS:
        size //= 2
    while start < len(rows):
        while size > len(rows) - start:
            size //= 2
        yield rows[start : start + size]
        start += size


def _checked_rows(table: Table, columns: tuple[str, ...], rows: Rows) -> Rows:
    """Check the values of sealed columns, as SQLAlchemy does at bind; other values have the driver's own types."""
    for place, name in enumerate(columns):
        check = getattr(table.c[name].type, "process_bind_param", None)
        if check is not None:
            for row in rows:
                check(row[place], None)
    return rows


def _flat(rows: Rows) -> tuple[Any, ...]:
    return tuple([value for row in rows for value in row])


@cache
def _insert(dialect: str, table: Table, columns: tuple[str, ...], count: int, conflict: str) -> str:
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES {_values(dialect, len(columns), count)}{conflict}"  # noqa: S608


@cache
def _update(dialect: str, table: Table, keys: tuple[str, ...], columns: tuple[str, ...], count: int) -> str:
    given = _values_query(dialect, table, keys + columns, count)
    changes = ", ".join(f"{name} = given.column{place}" for place, name in enumerate(columns, len(keys) + 1))
    return f"UPDATE {table.name} SET {changes} FROM ({given}) AS given WHERE {_same(table, keys)}"  # noqa: S608


@cache
def _delete(dialect: str, table: Table, key: str, count: int) -> str:
    return f"DELETE FROM {table.name} WHERE {key} IN ({_values_query(dialect, table, (key,), count)})"  # noqa: S608


@cache
def _find(dialect: str, table: Table, keys: tuple[str, ...], columns: tuple[str, ...], count: int, lock: str) -> str:
    names = ", ".join(f"{table.name}.{name}" for name in keys + columns)
    given = _values_query(dialect, table, keys, count)
    same = _same(table, keys)
    if dialect == "sqlite":
        return f"SELECT {names} FROM ({given}) AS given JOIN {table.name} ON {same}"  # noqa: S608
    # A prepared join may have been planned when the table was small, and then reads all of it. Looked up one by one,
    # the keys are found by the index. They are locked in their order.
    order = ", ".join(str(place) for place in range(1, len(keys) + 1))
    row = f"SELECT {names} FROM {table.name} WHERE {same} {f'FOR {lock}' if lock else 'OFFSET 0'}"  # noqa: S608
    return f"SELECT found.* FROM ({given} ORDER BY {order}) AS given, LATERAL ({row}) AS found"  # noqa: S608


def _values_query(dialect: str, table: Table, columns: tuple[str, ...], count: int) -> str:
    """Return a query for the rows, with columns column1, column2, …; for PostgreSQL with their types."""
    types = None
    if dialect == "postgresql":
        types = [table.c[name].type.compile(_DIALECTS[dialect]) for name in columns]
    return f"VALUES {_values(dialect, len(columns), count, types)}"


def _same(table: Table, keys: tuple[str, ...]) -> str:
    return " AND ".join(f"{table.name}.{key} = given.column{place}" for place, key in enumerate(keys, 1))


def _values(dialect: str, width: int, count: int, types: list[str] | None = None) -> str:
    """Return `(?, ?), (?, ?)`, or PostgreSQL's numbered placeholders, cast to `types`."""
    if dialect == "sqlite":
        return ", ".join([f"({', '.join('?' * width)})"] * count)
    casts = [f"::{kind}" for kind in types] if types else [""] * width
    return ", ".join(
        "(" + ", ".join(f"${row * width + place + 1}{casts[place]}" for place in range(width)) + ")"
        for row in range(count)
    )
