"""The settings that a user gives an agent, such as preferences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, select

from runtime.clock import Clock, milliseconds
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import agent_settings
from runtime.database.sealed import Seal


class AgentSettings:
    """The settings of all users in one database: JSON objects, stored sealed."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._seal = Seal(database.master_key, agent_settings.c.settings)

    async def get(self, user_id: str, agent: str) -> dict[str, Any]:
        """Return a user's settings of an agent; empty if there are none."""
        query = select(agent_settings.c.settings).where(*_of(user_id, agent))
        async with self._database.read() as connection:
            sealed = (await connection.execute(query)).scalar()
        if sealed is None:
            return {}
        return msgspec.json.decode(self._seal.open(sealed, row=agent, user_id=user_id), type=dict[str, Any])

    async def put(self, user_id: str, agent: str, settings: Mapping[str, Any]) -> None:
        """Replace a user's settings of an agent; empty ones are deleted. Raises TypeError for what is not JSON."""
        sealed = self._seal.close(msgspec.json.encode(settings), row=agent, user_id=user_id)
        key = user_id, agent
        row = (*key, sealed, milliseconds(self._clock))

        def write(connection: Connection) -> None:
            if not settings:
                connection.execute(delete(agent_settings).where(*_of(user_id, agent)))
            elif not bulk.insert(connection, agent_settings, (*_KEYS, *_VALUES), [row], ignore=True):
                bulk.update(connection, agent_settings, _KEYS, _VALUES, [row])

        await self._database.transact(write)


_KEYS = ("user_id", "agent")
_VALUES = ("settings", "updated_at")


def _of(user_id: str, agent: str) -> tuple[Any, ...]:
    return agent_settings.c.user_id == user_id, agent_settings.c.agent == agent
