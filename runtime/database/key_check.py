"""A database belongs to the key it was first opened with."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select

from runtime.crypto import MasterKey
from runtime.database.schema import meta
from runtime.errors import UsageError


def check_key(connection: Connection, key: MasterKey, shown: str) -> None:
    """Remember the key's id in a new database; raise UsageError when an older one was sealed with another key."""
    stored = connection.execute(select(meta.c.value).where(meta.c.name == "master_key_id")).scalar()
    if stored is None:
        connection.execute(insert(meta).values(name="master_key_id", value=key.key_id.hex()))
    elif stored != key.key_id.hex():
        raise UsageError(
            f"{shown}: sealed with master key {stored}, and this one is {key.key_id.hex()}",
            hint="start with the master key that the database was made with",
        )
