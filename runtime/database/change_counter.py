"""Change counters: a row of `meta` gets a new value with each change of a table, so that every daemon on the database
can detect the change with a small query."""

from __future__ import annotations

from uuid import uuid4

from sqlalchemy import Connection, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.database.schema import meta

_RENEW = text("INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value")


def advance(connection: Connection, name: str) -> None:
    """Give the counter `name` a new value; concurrent calls wait for the end of this transaction."""
    connection.execute(_RENEW, {"name": name, "value": uuid4().hex})


async def current(connection: AsyncConnection, name: str) -> str | None:
    """Return the value of the counter `name`; None before the first change."""
    found: str | None = await connection.scalar(select(meta.c.value).where(meta.c.name == name))
    return found
