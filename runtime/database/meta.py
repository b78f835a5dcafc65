"""Rows of the table `meta`: the database's id, the key that it is sealed with, and change counters.

A change counter gets a new value with each change of a table, so that every daemon on the database can detect the
change with a small query.
"""

from __future__ import annotations

import secrets
from typing import Final
from uuid import uuid4

from sqlalchemy import Connection, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.crypto import MasterKey
from runtime.database.schema import meta
from runtime.errors import UsageError

DATABASE_ID: Final = "database_id"
MASTER_KEY_ID: Final = "master_key_id"
ID_BYTES: Final = 16
_RENEW: Final = text(
    "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value"
)


def database_id(connection: Connection) -> str:
    """Return the database's id, 32 hexadecimal digits; store a new random one if there is none."""
    return _stored_or_new(connection, DATABASE_ID, secrets.token_hex(ID_BYTES))


def check_key(connection: Connection, key: MasterKey, shown: str) -> None:
    """Store the key's id in a new database; raise UsageError if the database was sealed with another key."""
    own = key.key_id.hex()
    stored = _stored_or_new(connection, MASTER_KEY_ID, own)
    if stored != own:
        raise UsageError(
            f"{shown}: sealed with master key {stored}, not with {own}",
            hint="use the master key that the database was created with",
        )


def advance(connection: Connection, name: str) -> None:
    """Give the counter `name` a new value; concurrent calls wait for the end of this transaction."""
    connection.execute(_RENEW, {"name": name, "value": uuid4().hex})


async def current(connection: AsyncConnection, name: str) -> str | None:
    """Return the value of the counter `name`; None before the first change."""
    found: str | None = await connection.scalar(select(meta.c.value).where(meta.c.name == name))
    return found


def _stored_or_new(connection: Connection, name: str, new: str) -> str:
    """Return the value of a row that never changes; store `new` if there is none."""
    stored = connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar()
    if stored is None:
        connection.execute(insert(meta).values(name=name, value=new))
        return new
    return str(stored)
