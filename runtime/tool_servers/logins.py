"""Logins to servers with OAuth, sealed in the database: the tokens, and what is needed to refresh them."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, select

from runtime.clock import Clock, milliseconds
from runtime.database.connection import Database
from runtime.database.schema import OWNER, mcp_logins
from runtime.database.sealed import Seal


class Logins:
    """The stored logins, by server."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._seal = Seal(database.keys, mcp_logins.c.content)

    async def get(self, server: str, url: str) -> dict[str, Any] | None:
        """Return the login to a server at `url`; None without one: a login to another address is none to this."""
        query = select(*mcp_logins.c["content", "updated_at"])
        query = query.where(mcp_logins.c.user_id == OWNER, mcp_logins.c.server == server)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).first()
        if row is None:
            return None
        opened = self._seal.open(row.content, row=server, version=row.updated_at)
        content: dict[str, Any] = msgspec.json.decode(opened)
        return content if content.get("url") == url else None

    async def put(self, server: str, url: str, content: dict[str, Any]) -> None:
        """Replace the login to a server. Raises `Unavailable`."""
        now, encoded = milliseconds(self._clock), msgspec.json.encode({**content, "url": url})
        theirs = (mcp_logins.c.user_id == OWNER, mcp_logins.c.server == server)

        def replace(connection: Connection) -> None:
            before = connection.execute(select(mcp_logins.c.updated_at).where(*theirs).with_for_update()).scalar()
            # Each has another version, however fast they follow each other, and if the clock was set back.
            at = max(now, (before or 0) + 1)
            sealed = self._seal.close(encoded, row=server, version=at)
            connection.execute(mcp_logins.delete().where(*theirs))
            connection.execute(mcp_logins.insert().values(user_id=OWNER, server=server, content=sealed, updated_at=at))

        await self._database.transact(replace)
