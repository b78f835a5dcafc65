"""Versions of tables: a row of `meta` whose text is another one after every change of what it stands for, so that a
small query tells every daemon on the database whether to look again."""

from __future__ import annotations

from uuid import uuid4

from sqlalchemy import Connection, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.database.schema import meta

_RENEW = text("INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value")


def advance(connection: Connection, name: str) -> None:
    """Give `name` a text that it never had; whoever else does so waits for this transaction to end."""
    connection.execute(_RENEW, {"name": name, "value": uuid4().hex})


async def current(connection: AsyncConnection, name: str) -> str | None:
    """The text of `name`; None before the first change."""
    found: str | None = await connection.scalar(select(meta.c.value).where(meta.c.name == name))
    return found
