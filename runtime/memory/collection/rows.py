"""Items as rows, and back."""

from __future__ import annotations

from sqlalchemy import select

from runtime.database import Database
from runtime.database.schema import item_parts


async def holds(database: Database, memory: str) -> bool:
    """Whether the database has something of this collection memory, be it an empty collection. Raises `Unavailable`."""
    query = select(item_parts.c.part).where(item_parts.c.memory == memory).limit(1)
    async with database.read() as connection:
        return (await connection.execute(query)).first() is not None
