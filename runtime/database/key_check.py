"""The check that a database is opened with the master key that it was created with."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select

from runtime.crypto import MasterKey
from runtime.database.schema import meta
from runtime.errors import UsageError


def check_key(connection: Connection, key: MasterKey, shown: str) -> None:
    """Store the key's id in a new database; raise UsageError if the database was sealed with another key."""
    stored = connection.execute(select(meta.c.value).where(meta.c.name == "master_key_id")).scalar()
    if stored is None:
        connection.execute(insert(meta).values(name="master_key_id", value=key.key_id.hex()))
    elif stored != key.key_id.hex():
        raise UsageError(
            f"{shown}: sealed with master key {stored}, not with {key.key_id.hex()}",
            hint="use the master key that the database was created with",
        )
