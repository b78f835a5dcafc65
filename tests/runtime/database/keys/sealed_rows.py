"""Rows with sealed values in every table that has some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Boolean, Column, Connection, Integer, LargeBinary, String, Table, insert, select

from runtime.database.connection import Database
from runtime.database.keys.ring import KeyRing
from runtime.database.schema import SEALED_TABLES
from runtime.database.sealed import Seal, Sealed

TABLES = SEALED_TABLES


def _value(column: Column[Any], number: int, user: str) -> Any:
    if column.name == "user_id":
        return user
    for foreign in column.foreign_keys:
        # Its row has the same number.
        return _value(foreign.column, number, user)
    if isinstance(column.type, LargeBinary):
        return str(number).encode()
    if isinstance(column.type, Boolean):
        return bool(number)
    if isinstance(column.type, Integer):
        return number
    assert isinstance(column.type, String)
    return f"{column.name[:9]} {number}"


def plaintext(table: Table, column: Column[Any], number: int) -> bytes:
    """Return the value of a column in row `number`."""
    return f"{table.name} {column.name} {number}".encode()


def fill(connection: Connection, keys: KeyRing, users: Mapping[int, str], *, tables: Sequence[Table] = TABLES) -> None:
    """Insert a row for each of `users` into each table, where a user may have another one."""
    for table in tables:
        for number, user in users.items():
            if list(table.primary_key.columns) == [table.c.user_id] and _has_row(connection, table, user):
                continue
            row = {
                column.name: _value(column, number, user)
                for column in table.c
                if not isinstance(column.type, Sealed) and (not column.nullable or column.primary_key)
            }
            for column in table.c:
                if isinstance(column.type, Sealed):
                    text = plaintext(table, column, number)
                    row[column.name] = Seal(keys, column).close(text, **_place(column, {**row, "user_id": user}))
            connection.execute(insert(table).values(**row))


def _has_row(connection: Connection, table: Table, user: str) -> bool:
    return connection.scalar(select(table.c.user_id).where(table.c.user_id == user)) is not None


def _place(column: Column[Any], row: Any) -> dict[str, Any]:
    """Return what a value of this row is sealed for."""
    assert isinstance(column.type, Sealed)
    version, key = column.type.version, column.table.primary_key.columns
    name = "/".join(str(row[each.name]) for each in key if each.name != "user_id")
    return {"row": name, "user_id": row["user_id"], "version": None if version is None else row[version]}


async def _values(database: Database) -> list[tuple[Column[Any], bytes, dict[str, Any]]]:
    """Return the column, the sealed bytes and the place of every sealed value."""
    found: list[tuple[Column[Any], bytes, dict[str, Any]]] = []
    for table in TABLES:
        sealed = [column for column in table.c if isinstance(column.type, Sealed)]
        async with database.read() as connection:
            rows = (await connection.execute(select(table).order_by(*table.primary_key.columns))).mappings().all()
        found += [(each, row[each.name], _place(each, row)) for row in rows for each in sealed if row[each.name]]
    return found


async def sealed_values(database: Database, user_id: str | None = None) -> list[Callable[[], bytes]]:
    """Return a function for each sealed value, of a user or of all, that opens it."""
    return [
        partial(Seal(database.keys, column).open, value, **place)
        for column, value, place in await _values(database)
        if user_id in (None, place["user_id"])
    ]


async def opened(database: Database, user_id: str | None = None) -> list[bytes]:
    """Return all sealed values, of a user or of all, opened."""
    return [value() for value in await sealed_values(database, user_id)]


async def prefixes(database: Database) -> set[tuple[str, bytes]]:
    """Return the user and the format and key id of every sealed value."""
    return {(place["user_id"], bytes(value[:5])) for _, value, place in await _values(database)}
