"""Deletion of entries of the key-value store that have expired. They are not found any more since then, so it may be
late, and is never early: of several daemons on PostgreSQL one may have a clock that is ahead."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final

import structlog
from sqlalchemy import Connection, select, text

from runtime.clock import Clock
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import kv
from runtime.tables.storage import UserStorage
from runtime.threads.turns.claimable import DATABASE_NOW

log = structlog.get_logger("symbiont.kv")

SWEEP_SECONDS: Final = 60.0
CHUNK: Final = 500
"""Maximum number of entries that one transaction deletes."""
_AT_ONCE: Final = 10_000
"""Entries that are looked for at once."""


class Expiry:
    """Deletes expired entries of all users. `run` is a background task."""

    def __init__(self, database: Database, clock: Clock, storage: UserStorage, now: Callable[[], int]) -> None:
        """`now`: the time to use, in Unix milliseconds; what is deleted does not come back if a clock was wrong."""
        self._database = database
        self._now = now
        self._clock = clock
        self._storage = storage

    async def run(self) -> None:
        """Delete now and every minute, until cancelled."""
        while True:
            try:
                await self.sweep()
            except Unavailable as error:
                log.warning("kv_sweep_skipped", error=str(error))
            await self._clock.sleep(SWEEP_SECONDS)

    async def sweep(self) -> int:
        """Delete what has expired; return the number of entries. Raises `Unavailable`."""
        gone = count = await self._sweep()
        while count == _AT_ONCE:
            count = await self._sweep()
            gone += count
        return gone

    async def _sweep(self) -> int:
        async with self._database.read() as connection:
            now = self._now()
            if self._database.kind == "postgresql":
                now = min(now, int((await connection.execute(text(f"SELECT {DATABASE_NOW}"))).scalar_one()))
            query = select(kv.c.user_id, kv.c.id).where(kv.c.expires_at <= now).limit(_AT_ONCE)
            found = sorted(map(tuple, await connection.execute(query)))
        gone = 0
        for user_id, rows in groupby(found, key=itemgetter(0)):
            ids = [row[1] for row in rows]
            for start in range(0, len(ids), CHUNK):
                chunk = partial(self._delete, user_id=user_id, ids=ids[start : start + CHUNK], now=now)
                gone += await self._database.transact(chunk)
        return gone

    def _delete(self, connection: Connection, user_id: str, ids: list[str], now: int) -> int:
        # Locks the user's row first, as every write does.
        self._storage.free_kv(connection, user_id, 0)
        # One that was set again in the meantime stays.
        found = bulk.find(connection, kv, ("id",), ("bytes", "expires_at"), [(each,) for each in ids])
        past = [
            (entry_id, size) for entry_id, size, expires_at in found if expires_at is not None and expires_at <= now
        ]
        bulk.delete(connection, kv, "id", [entry_id for entry_id, _ in past])
        self._storage.free_kv(connection, user_id, sum(size for _, size in past))
        return len(past)
