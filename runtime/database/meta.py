"""Rows of the table `meta`: the database's id, the keys that it is sealed with, and change counters.

A change counter gets a new value with each change of a table, so that every daemon on the database can detect the
change with a small query.
"""

from __future__ import annotations

import secrets
from typing import Final
from uuid import uuid4

from sqlalchemy import Connection, delete, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.database.keys import tables
from runtime.database.keys.ring import KeyRing
from runtime.database.schema import meta
from runtime.errors import UsageError

DATABASE_ID: Final = "database_id"
MASTER_KEY_ID: Final = "master_key_id"
KEYS_ID: Final = "keys_id"
"""The id of the keys of users, which are stored apart."""
ID_BYTES: Final = 16
_RENEW: Final = text(
    "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value"
)


def database_id(connection: Connection) -> str:
    """Return the database's id, 32 hexadecimal digits; store a new random one if there is none."""
    return _stored_or_new(connection, DATABASE_ID, secrets.token_hex(ID_BYTES))


def open_keys(connection: Connection, ring: KeyRing, shown: str, *, upgraded: bool) -> None:
    """Load the keys of users into `ring`; make them for a new database.

    `upgraded`: the schema was older than the keys of users, so values of the first format are accepted until they are
    sealed again. Raises UsageError if the keys are missing, belong to another database, or are wrapped with another
    master key.
    """
    own = ring.master.key_id.hex()
    expected, sealed_with = _value(connection, KEYS_ID), _value(connection, MASTER_KEY_ID)
    if expected is None and sealed_with not in (None, own):
        raise _other_key(shown, sealed_with, own)
    if not ring.store.transact(tables.exist):
        if expected is not None:
            raise UsageError(
                f"{shown}: the keys of its users are missing in {ring.store.shown}",
                hint="put them back, or restore an export with `symbi key import FILE`",
            )
        ring.store.transact(lambda keys: tables.make(keys, uuid4().hex, own))
    if upgraded:
        ring.set_fact(tables.FIRST_FORMAT, "open")
    ring.load()
    if expected not in (None, ring.facts[tables.ID]):
        raise UsageError(
            f"{shown}: the keys in {ring.store.shown} belong to another database", hint="put back the keys of this one"
        )
    if ring.facts[tables.MASTER] != own:
        raise _other_key(shown, ring.facts[tables.MASTER], own, ring.facts.get(tables.MASTER_FROM))
    _set(connection, KEYS_ID, ring.facts[tables.ID])
    _set(connection, MASTER_KEY_ID, own)


def _other_key(shown: str, stored: str | None, own: str, reference: str | None = None) -> UsageError:
    hint = f"since a rotation it is read from {reference}" if reference else "use the master key of its last start"
    return UsageError(f"{shown}: sealed with master key {stored}, not with {own}", hint=hint)


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


def locked(connection: Connection, name: str) -> str | None:
    """Return the value of a row that others do not change until the end of the transaction."""
    found: str | None = connection.execute(select(meta.c.value).where(meta.c.name == name).with_for_update()).scalar()
    return found


def put(connection: Connection, name: str, value: str) -> None:
    """Store or replace a row."""
    connection.execute(_RENEW, {"name": name, "value": value})


def forget(connection: Connection, name: str) -> None:
    """Delete a row."""
    connection.execute(delete(meta).where(meta.c.name == name))


def _stored_or_new(connection: Connection, name: str, new: str) -> str:
    """Return the value of a row that never changes; store `new` if there is none."""
    stored = _value(connection, name)
    if stored is None:
        connection.execute(insert(meta).values(name=name, value=new))
        return new
    return stored


def _value(connection: Connection, name: str) -> str | None:
    found: str | None = connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar()
    return found


def _set(connection: Connection, name: str, value: str) -> None:
    if _value(connection, name) != value:
        put(connection, name, value)
