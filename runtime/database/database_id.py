"""A database keeps the id that it was given when it was first opened, and takes it along when it is moved."""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, insert, select

from runtime.database.schema import meta

NAME = "database_id"
BYTES = 16


def database_id(connection: Connection) -> str:
    """The database's id, 32 hexadecimal digits; a new random one when it has none yet."""
    stored = connection.execute(select(meta.c.value).where(meta.c.name == NAME)).scalar()
    if stored is not None:
        return str(stored)
    new = secrets.token_hex(BYTES)
    connection.execute(insert(meta).values(name=NAME, value=new))
    return new
