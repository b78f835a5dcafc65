"""Rows with sealed values in every table that has some, in the present format or in the first one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Boolean, Column, Connection, Integer, LargeBinary, String, Table, insert, select

from runtime.crypto import MasterKey, SealedBytes
from runtime.database.connection import Database
from runtime.database.keys.ring import KeyRing
from runtime.database.schema import metadata
from runtime.database.sealed import Seal, Sealed
from tests.conftest import KEY, KEY_BYTES

TABLES = [table for table in metadata.sorted_tables if any(isinstance(column.type, Sealed) for column in table.c)]


def first_format(key: MasterKey, plaintext: bytes, user_id: str, table: str, column: str, row: str) -> SealedBytes:
    """Seal as programs did before users had keys."""
    nonce = plaintext.ljust(12, b"\0")[:12]
    where = "\x00".join((user_id, table, column, row)).encode()
    return SealedBytes(b"\x01" + key.key_id + nonce + AESGCM(KEY_BYTES).encrypt(nonce, plaintext, where))


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


def fill(
    connection: Connection,
    keys: KeyRing,
    users: Mapping[int, str],
    *,
    first: bool = False,
    tables: Sequence[Table] = TABLES,
) -> None:
    """Insert a row for each of `users` into each table, where a user may have another one. `first`: in the first
    format."""
    for table in tables:
        for number, user in users.items():
            if list(table.primary_key.columns) == [table.c.user_id] and _has_row(connection, table, user):
                continue
            row = {
                column.name: _value(column, number, user)
                for column in table.c
                if not isinstance(column.type, Sealed) and (not column.nullable or column.primary_key)
            }
            name = "/".join(str(row[each.name]) for each in table.primary_key.columns if each.name != "user_id")
            for column in table.c:
                if not isinstance(column.type, Sealed):
                    continue
                text, version = plaintext(table, column, number), column.type.version
                if first:
                    row[column.name] = first_format(KEY, text, user, table.name, column.name, name)
                else:
                    where: dict[str, Any] = {"row": name, "user_id": user}
                    row[column.name] = Seal(keys, column).close(
                        text, **where, version=None if version is None else row[version]
                    )
            connection.execute(insert(table).values(**row))


def _has_row(connection: Connection, table: Table, user: str) -> bool:
    return connection.scalar(select(table.c.user_id).where(table.c.user_id == user)) is not None


async def sealed_values(database: Database, user_id: str | None = None) -> list[Callable[[], bytes]]:
    """Return a function for each sealed value, of a user or of all, that opens it."""
    found: list[Callable[[], bytes]] = []
    for table in TABLES:
        async with database.read() as connection:
            rows = (await connection.execute(select(table).order_by(*table.primary_key.columns))).mappings().all()
        for row in rows:
            name = "/".join(str(row[each.name]) for each in table.primary_key.columns if each.name != "user_id")
            where: dict[str, Any] = {"row": name, "user_id": row["user_id"]}
            for column in table.c:
                if isinstance(column.type, Sealed) and user_id in (None, row["user_id"]):
                    version = None if column.type.version is None else row[column.type.version]
                    seal = Seal(database.keys, column)
                    found.append(partial(seal.open, row[column.name], **where, version=version))
    return found


async def opened(database: Database, user_id: str | None = None) -> list[bytes]:
    """Return all sealed values, of a user or of all, opened."""
    return [value() for value in await sealed_values(database, user_id)]


async def prefixes(database: Database) -> set[tuple[str, bytes]]:
    """Return the user and the format and key id of every sealed value."""
    found: set[tuple[str, bytes]] = set()
    for table in TABLES:
        async with database.read() as connection:
            for row in (await connection.execute(select(table))).mappings():
                sealed = (row[column.name] for column in table.c if isinstance(column.type, Sealed))
                found |= {(row["user_id"], bytes(value[:5])) for value in sealed if value is not None}
    return found
