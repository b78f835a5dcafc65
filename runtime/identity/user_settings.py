"""The settings that administrators give users: a row for each user that has any."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, select

from runtime.clock import Clock, milliseconds
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import user_settings
from runtime.identity import users

FRESH_SECONDS: Final = 1.0
"""Seconds for which settings that were read are used: another daemon may change them."""
_CACHE_SIZE: Final = 10_000

NO_LIMIT: Final = 0
"""A limit that is stored for a user who has none, whatever the default of the process is."""


Tier = Literal["free", "pro", "enterprise"]
"""Storage tier of a user: see `runtime.tables.quota`."""


class UserSettings(NamedTuple):
    """Settings of one user. A setting of None is the default of the process, a limit of `NO_LIMIT` is none.
    `cost_per_day`: in 1e-9 US dollars. `storage`: bytes of SQL tables and key-value store; None: that of the tier.
    `time_zone`: a name of the IANA database; None: that of the machine."""

    tokens_per_day: int | None = None
    cost_per_day: int | None = None
    runs_per_hour: int | None = None
    tier: Tier | None = None
    storage: int | None = None
    time_zone: str | None = None

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone; None for that of the machine."""
        try:
            return None if self.time_zone is None else ZoneInfo(self.time_zone)
        except (ValueError, OSError, KeyError):
            # The database of time zones of another machine knew it.
            return None


_COLUMNS: Final = UserSettings._fields


async def read_settings(database: Database, user_id: str) -> UserSettings:
    """Return the settings of a user as they are stored now. Raises `Unavailable`."""
    query = select(*(user_settings.c[name] for name in _COLUMNS)).where(user_settings.c.user_id == user_id)
    async with database.read() as connection:
        row = (await connection.execute(query)).first()
    return UserSettings() if row is None else UserSettings(*row)


class UserSettingsStore:
    """The settings of all users in one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._cache: OrderedDict[str, tuple[float, UserSettings]] = OrderedDict()
        self._changing: Counter[str] = Counter()
        self._changes = 0

    async def of(self, user_id: str) -> UserSettings:
        """Return the settings of a user, at most a second old. Raises `Unavailable`."""
        now, changes = self._clock.monotonic(), self._changes
        at, known = self._cache.get(user_id, (-FRESH_SECONDS, UserSettings()))
        if now - at < FRESH_SECONDS:
            return known
        found = await read_settings(self._database, user_id)
        if self._changing[user_id] or changes != self._changes:
            # It may be from before a change, and what the change allows is tried at once.
            return found
        self._cache[user_id] = now, found
        self._cache.move_to_end(user_id)
        if len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)
        return found

    async def all(self) -> Mapping[str, UserSettings]:
        """Return the settings of all users that have any, by id. Raises `Unavailable`."""
        query = select(user_settings.c.user_id, *(user_settings.c[name] for name in _COLUMNS))
        async with self._database.read() as connection:
            return {row[0]: UserSettings(*row[1:]) for row in await connection.execute(query)}

    async def change(
        self,
        user_id: str,
        changes: Mapping[str, int | str | None],
        also: Callable[[Connection], object] = lambda connection: None,
    ) -> None:
        """Change these settings of a user. `also`: called in the same transaction, after the change was written. Raises
        NotFound if the user does not exist any more, and `Unavailable`."""
        now = milliseconds(self._clock)

        def write(connection: Connection) -> None:
            users.require(connection, user_id)
            bulk.insert(connection, user_settings, ("user_id", "updated_at"), [(user_id, now)], ignore=True)
            row = (user_id, *changes.values(), now)
            bulk.update(connection, user_settings, ("user_id",), (*changes, "updated_at"), [row])
            also(connection)

        self._cache.pop(user_id, None)
        self._changing[user_id] += 1
        try:
            await self._database.transact(write)
        finally:
            self._changing[user_id] -= 1
            self._changing += Counter()
            self._changes += 1
