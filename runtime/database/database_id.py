"""The random id of a database, stored in it at its creation."""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, insert, select

from runtime.database.schema import meta

NAME = "database_id"
BYTES = 16


def database_id(connection: Connection) -> str:
    """Return the database's id, 32 hexadecimal digits; store a new random one if there is none."""
    stored = connection.execute(select(meta.c.value).where(meta.c.name == NAME)).scalar()
    if stored is not None:
        return str(stored)
    new = secrets.token_hex(BYTES)
    connection.execute(insert(meta).values(name=NAME, value=new))
    return new
