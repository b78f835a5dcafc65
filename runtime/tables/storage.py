"""Storage usage of users: a row of `user_storage` for each, and the one check of what may be added to SQL tables and
key-value store. Texts are checked in `texts`."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, select

from runtime.clock import Clock, milliseconds
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.group_commit import Stage
from runtime.database.schema import user_storage
from runtime.errors import NotFound
from runtime.identity import users
from runtime.identity.user_settings import Tier, UserSettings, UserSettingsStore
from runtime.tables.quota import Quota, storage_exceeded

ACCESSED_MS: Final = 60_000
"""Maximum delay of `accessed_at`: of a user who reads all the time it is written once a minute."""
_KEPT: Final = 10_000


class StorageUsage(NamedTuple):
    """Storage usage of one user. Times: Unix milliseconds; None for a user who never stored anything. `name`: of the
    file or schema of the tables; None before the first."""

    tables: int = 0
    table_bytes: int = 0
    kv_bytes: int = 0
    created_at: int | None = None
    accessed_at: int | None = None
    name: str | None = None
    text_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Of tables and key-value store together, which the quota limits."""
        return self.table_bytes + self.kv_bytes


_COLUMNS: Final = ("table_count", "table_bytes", "kv_bytes", "created_at", "accessed_at", "name", "text_bytes")
# Built once: building a statement takes longer than running it.
_ROW: Final = select(*(user_storage.c[name] for name in _COLUMNS)).where(user_storage.c.user_id == bindparam("user"))
_LOCKED_ROW: Final = _ROW.with_for_update(key_share=True)


def check_growth(stored: StorageUsage, quota: Quota, more: int) -> None:
    """Raise QuotaExceeded if `more` bytes may not be added to what is stored. What takes no more is always allowed,
    also beyond the quota, as after a move to a smaller tier."""
    if more > 0 and stored.bytes + more > quota.storage:
        raise storage_exceeded(quota, stored.bytes)


def used_percent(stored: StorageUsage, quota: Quota) -> float:
    """Return how much of its storage a user has used, in percent with one decimal; over 100 after a move to a smaller
    tier."""
    return round(100 * stored.bytes / quota.storage, 1)


class UserStorage:
    """Storage usage and quota of all users of one database.

    What grows is checked against the row of its user, in the transaction that stores the new sum: `add_kv` and
    `note_tables`. Such transactions of one user follow one another: on SQLite because there is one writer, on
    PostgreSQL by the lock of the row.
    """

    def __init__(
        self, database: Database, clock: Clock, settings: UserSettingsStore, tiers: Mapping[Tier, Quota], tier: Tier
    ) -> None:
        """`tiers`: the limits of each tier. `tier`: of users without one of their own."""
        self._database = database
        self._clock = clock
        self._settings = settings
        self._tiers = tiers
        self._tier = tier
        self._accessed: OrderedDict[str, int] = OrderedDict()

    def tier_of(self, own: UserSettings) -> Tier:
        """Return the tier of a user with these settings."""
        return own.tier or self._tier

    def quota_of(self, own: UserSettings) -> Quota:
        """Return the limits of a user with these settings."""
        quota = self._tiers[self.tier_of(own)]
        return quota if own.storage is None else quota._replace(storage=own.storage)

    async def quota(self, user_id: str) -> Quota:
        """Return the limits of a user. Raises `Unavailable`."""
        return self.quota_of(await self._settings.of(user_id))

    async def usage(self, user_id: str) -> StorageUsage:
        """Return what a user has stored. Raises `Unavailable`."""
        async with self._database.read() as connection:
            row = (await connection.execute(_ROW, {"user": user_id})).first()
        return StorageUsage() if row is None else StorageUsage(*row)

    async def all(self) -> Mapping[str, StorageUsage]:
        """Return what every user has stored who stored anything, by id. Raises `Unavailable`."""
        query = select(user_storage.c.user_id, *(user_storage.c[name] for name in _COLUMNS))
        async with self._database.read() as connection:
            return {row[0]: StorageUsage(*row[1:]) for row in await connection.execute(query)}

    def ensure(self, connection: Connection, user_id: str) -> StorageUsage:
        """Return what a user has stored, from the row, which is made if there is none. It does not change until the end
        of the transaction: keep that short. Raises NotFound for a user who was removed."""
        stored = _lock_row(connection, user_id)
        if stored is None:
            # Nothing of a removed user may begin again.
            users.require(connection, user_id)
            now = milliseconds(self._clock)
            columns = ("user_id", "created_at", "accessed_at")
            bulk.insert(connection, user_storage, columns, [(user_id, now, now)], ignore=True)
            stored = _lock_row(connection, user_id)
            assert stored is not None
        return stored

    def add_kv(
        self, connection: Connection, user_id: str, change: int, quota: Quota, *, version: int | None = None
    ) -> None:
        """Add so many bytes to what the user's key-value store takes, in the transaction that stores them. `version`:
        the newest of any entry from now on. Raises QuotaExceeded, and NotFound for a user who was removed."""
        stored = self.ensure(connection, user_id)
        check_growth(stored, quota, change)
        newest = {} if version is None else {"kv_version": version}
        self._write(connection, user_id, kv_bytes=max(0, stored.kv_bytes + change), **newest)

    def free_kv(self, connection: Connection, user_id: str, size: int) -> None:
        """Take so many bytes from what the user's key-value store takes, in the transaction that deletes them, also of
        a user who was removed."""
        stored = _lock_row(connection, user_id)
        if stored is not None:
            self._write(connection, user_id, kv_bytes=max(0, stored.kv_bytes - size))

    async def note_tables(self, user_id: str, count: int, size: int, quota: Quota | None = None) -> None:
        """Store how many tables the user has, and how many bytes they take. `quota`: only if they take no more than
        before, or all together fits. Raises QuotaExceeded, NotFound for a user who was removed, and `Unavailable`.

        With a quota it is called before the change is committed: if the process is killed in between, too much is
        counted until the next call, never too little.
        """

        def write(connection: Connection) -> None:
            stored = self.ensure(connection, user_id)
            if quota is not None:
                check_growth(stored, quota, size - stored.table_bytes)
            self._write(connection, user_id, table_count=count, table_bytes=size)

        await self._database.transact(write)

    def add_texts(self, connection: Connection, sizes: Mapping[str, int]) -> None:
        """Add so many bytes to the texts of each user who still exists."""
        # In one order in all processes, so that two of them do not wait for each other.
        for user_id, size in sorted(sizes.items()):
            with suppress(NotFound):
                if size:
                    total = max(0, self.ensure(connection, user_id).text_bytes + size)
                    bulk.update(connection, user_storage, ("user_id",), ("text_bytes",), [(user_id, total)])

    async def note_texts(self, user_id: str, size: int) -> None:
        """Store how many bytes of texts a user has. Raises `Unavailable`."""

        def write(connection: Connection) -> None:
            self.add_texts(connection, {user_id: size - (_lock_row(connection, user_id) or StorageUsage()).text_bytes})

        await self._database.transact(write)

    def touch(self, user_id: str) -> None:
        """Store that the user accesses tables or keys, soon, and at most once a minute. Nothing waits for it, or fails
        because of it."""
        now = milliseconds(self._clock)
        if now - self._accessed.get(user_id, -ACCESSED_MS) < ACCESSED_MS:
            return
        self._note_access(user_id, now)
        with suppress(Unavailable):
            self._database.commits.put(_ACCESSED, (user_id, now)).add_done_callback(_mark_seen)

    def _write(self, connection: Connection, user_id: str, **values: int) -> None:
        now = milliseconds(self._clock)
        changed = {**values, "accessed_at": now}
        bulk.update(connection, user_storage, ("user_id",), tuple(changed), [(user_id, *changed.values())])

    def _note_access(self, user_id: str, now: int) -> None:
        self._accessed[user_id] = now
        self._accessed.move_to_end(user_id)
        if len(self._accessed) > _KEPT:
            self._accessed.popitem(last=False)


def _lock_row(connection: Connection, user_id: str) -> StorageUsage | None:
    row = connection.execute(_LOCKED_ROW, {"user": user_id}).first()
    return None if row is None else StorageUsage(*row)


def _store_accesses(connection: Connection, accesses: Sequence[tuple[str, int]]) -> Sequence[None]:
    times = dict(accesses)
    # Not those that another daemon is changing, which stores the time too: writes of this transaction have locked rows
    # before, and two transactions would wait for each other.
    keys = [(user_id,) for user_id in sorted(times)]
    found = bulk.find(connection, user_storage, ("user_id",), (), keys, lock="NO KEY UPDATE SKIP LOCKED")
    rows = [(user_id, times[user_id]) for (user_id,) in found]
    bulk.update(connection, user_storage, ("user_id",), ("accessed_at",), rows)
    return [None] * len(accesses)


_ACCESSED: Final[Stage[tuple[str, int], None]] = Stage(11, _store_accesses)
"""After all others."""


def _mark_seen(future: asyncio.Future[None]) -> None:
    """Mark the failure of a write as seen."""
    if not future.cancelled():
        future.exception()
