"""Rows of the table `meta`: the database's id, the keys that it is sealed with, and change counters.

A change counter gets a new value with each change of a table, so that every daemon on the database can detect the
change with a small query.
"""

from __future__ import annotations

import secrets
from typing import Final
from uuid import uuid4

from sqlalchemy import Connection, delete, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.database.keys import tables
from runtime.database.keys.ring import KeyRing
from runtime.database.migrate import empty
from runtime.database.schema import meta
from runtime.errors import UsageError

DATABASE_ID: Final = "database_id"
KEYS_ID: Final = "keys_id"
"""The id of the keys of users, which are stored apart."""
ID_BYTES: Final = 16
_RENEW: Final = text(
    "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value"
)


def database_id(connection: Connection) -> str:
    """Return the database's id, 32 hexadecimal digits; store a new random one if there is none."""
    stored = _value(connection, DATABASE_ID)
    if stored is None:
        stored = secrets.token_hex(ID_BYTES)
        put(connection, DATABASE_ID, stored)
    return stored


def open_keys(connection: Connection, ring: KeyRing, label: str, *, replaces: bool = False) -> None:
    """Load the keys of users into `ring`; make them for a new database.

    `replaces`: a new database takes over the keys of one that was lost. Raises UsageError if the keys are missing,
    belong to another database, or are wrapped with another master key.
    """
    own, expected = ring.master.key_id.hex(), keys_id(connection)
    if not ring.store.transact(tables.exist):
        if expected is not None:
            raise UsageError(
                f"{label}: the keys of its users are missing in {ring.store.label}",
                hint="put them back, or restore an export with `symbi key import FILE`",
            )
        ring.store.transact(lambda keys: tables.make(keys, uuid4().hex, own))
    ring.load()
    if expected is None and ring.current and not replaces:
        raise empty(label)
    if expected not in (None, ring.facts[tables.ID]):
        raise UsageError(
            f"{label}: the keys in {ring.store.label} belong to another database", hint="put back the keys of this one"
        )
    stored, reference = ring.stored_master
    if stored != own:
        hint = f"since a rotation it is read from {reference}" if reference else "use the master key of its last start"
        raise UsageError(f"{label}: sealed with master key {stored}, not with {own}", hint=hint)
    if expected is None:
        put(connection, KEYS_ID, ring.facts[tables.ID])


def advance(connection: Connection, name: str) -> None:
    """Give the counter `name` a new value; concurrent calls wait for the end of this transaction."""
    connection.execute(_RENEW, {"name": name, "value": uuid4().hex})


def keys_id(connection: Connection) -> str | None:
    """Return the id of the keys of users; None if nothing was sealed with them yet."""
    return _value(connection, KEYS_ID)


async def current(connection: AsyncConnection, name: str) -> str | None:
    """Return the value of the counter `name`; None before the first change."""
    found: str | None = await connection.scalar(select(meta.c.value).where(meta.c.name == name))
    return found


def lock_value(connection: Connection, name: str) -> str | None:
    """Return the value of a row that others do not change until the end of the transaction."""
    found: str | None = connection.execute(select(meta.c.value).where(meta.c.name == name).with_for_update()).scalar()
    return found


def put(connection: Connection, name: str, value: str) -> None:
    """Store or replace a row."""
    connection.execute(_RENEW, {"name": name, "value": value})


def forget(connection: Connection, name: str) -> None:
    """Delete a row."""
    connection.execute(delete(meta).where(meta.c.name == name))


def _value(connection: Connection, name: str) -> str | None:
    found: str | None = connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar()
    return found
