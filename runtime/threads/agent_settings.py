"""The settings that a user gives an agent in place of the program's, such as preferences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, delete, select

from runtime.clock import Clock, milliseconds
from runtime.crypto import SealedBytes
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import agent_settings
from runtime.database.sealed import Seal
from runtime.errors import Conflict


class StoredSettings(NamedTuple):
    """A user's settings of an agent. `version` grows with each change; 0: there are none."""

    settings: Mapping[str, Any]
    version: int


NO_SETTINGS = StoredSettings({}, 0)


class AgentSettings:
    """The settings of all users in one database: JSON objects, stored sealed."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._seal = Seal(database.keys, agent_settings.c.settings)

    async def get(self, user_id: str, agent: str) -> StoredSettings:
        """Return a user's settings of an agent. Raises `Unsealable` if they cannot be opened."""
        query = select(agent_settings.c.settings, agent_settings.c.updated_at).where(*_of(user_id, agent))
        async with self._database.read() as connection:
            row = (await connection.execute(query)).first()
        if row is None:
            return NO_SETTINGS
        return StoredSettings(self._settings_of(row.settings, user_id, agent, row.updated_at), row.updated_at)

    async def version(self, user_id: str, agent: str) -> int:
        """Return the version of a user's settings of an agent, whether they can be opened or not."""
        query = select(agent_settings.c.updated_at).where(*_of(user_id, agent))
        async with self._database.read() as connection:
            return int((await connection.execute(query)).scalar() or 0)

    async def put(
        self,
        user_id: str,
        agent: str,
        settings: Mapping[str, Any],
        *,
        version: int | None = None,
        also: Callable[[Connection, int], object] = lambda connection, now: None,
    ) -> int:
        """Replace a user's settings of an agent; empty ones are deleted. Returns their version.

        `also` is called in the same transaction, with the time in Unix milliseconds. Raises Conflict if the version is
        another one than `version`, and TypeError for what is not JSON.
        """
        encoded, now = msgspec.json.encode(settings), milliseconds(self._clock)

        def seal(version: int) -> SealedBytes:
            return self._seal.close(encoded, row=agent, user_id=user_id, version=version)

        def write(connection: Connection) -> int:
            new = now if settings else 0
            first = bool(settings) and version in (None, 0)
            row = user_id, agent, seal(new), new
            if not first or not bulk.insert(connection, agent_settings, (*_KEYS, *_VALUES), [row], ignore=True):
                new = _replace(connection, (user_id, agent, now), version, seal if settings else None)
            also(connection, now)
            return new

        return await self._database.transact(write)

    def _settings_of(self, sealed: SealedBytes, user_id: str, agent: str, version: int) -> Mapping[str, Any]:
        opened = self._seal.open(sealed, row=agent, user_id=user_id, version=version)
        return msgspec.json.decode(opened, type=dict[str, Any])


_KEYS = ("user_id", "agent")
_VALUES = ("settings", "updated_at")


def _of(user_id: str, agent: str) -> tuple[Any, ...]:
    return agent_settings.c.user_id == user_id, agent_settings.c.agent == agent


def _replace(
    connection: Connection,
    given: tuple[str, str, int],
    version: int | None,
    seal: Callable[[int], SealedBytes] | None,
) -> int:
    """Replace the row of a user and an agent at a time, or delete it without `seal`, which seals the new content
    for a version. Returns its version, which is newer than the one before."""
    user_id, agent, now = given
    found = bulk.find(connection, agent_settings, _KEYS, ("updated_at",), [(user_id, agent)], lock="UPDATE")
    before = found[0][2] if found else 0
    if version not in (None, before):
        raise Conflict(
            f"the settings of the agent {agent} were changed meanwhile", hint="read them again, then change them"
        )
    if seal is None:
        connection.execute(delete(agent_settings).where(*_of(user_id, agent)))
        return 0
    new = max(now, before + 1)
    bulk.update(connection, agent_settings, _KEYS, _VALUES, [(user_id, agent, seal(new), new)])
    return new
