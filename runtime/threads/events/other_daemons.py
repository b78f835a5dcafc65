"""New events of other daemons on the same database, for those who wait for them in this process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from sqlalchemy import Connection

from runtime.clock import Clock
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import run_event_counts
from runtime.threads.events.log import PREFIX, changes_of

POLL_SECONDS: Final = 1.0
"""Interval in seconds of looking, if no other daemon announces events."""


class OtherDaemons:
    """Looks for events that other daemons committed, of the users for whom somebody waits."""

    def __init__(self, database: Database, clock: Clock, *, poll: float = POLL_SECONDS) -> None:
        self._database = database
        self._clock = clock
        self._poll = poll
        self._announced = asyncio.Event()
        self._seen: dict[str, int] = {}

    def on_announcement(self) -> None:
        """Look soon: another daemon announced events."""
        self._announced.set()

    async def run(self) -> None:
        """Look every `poll` seconds and when events are announced, until cancelled. Only on PostgreSQL is there
        another daemon."""
        if self._database.kind != "postgresql":
            return
        while True:
            self._announced.clear()
            with suppress(Unavailable):
                await self._look()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll):
                    await self._announced.wait()

    async def _look(self) -> None:
        changes = self._database.changes
        users = sorted(name.removeprefix(PREFIX) for name in changes.watched_names if name.startswith(PREFIX))
        if not users:
            self._seen.clear()
            return
        async with self._database.read() as connection:
            counts = await connection.run_sync(_counts, users)
        new = [changes_of(user_id) for user_id, newest in counts.items() if newest != self._seen.get(user_id)]
        if new:
            changes.publish(new)
        self._seen = counts


def _counts(connection: Connection, users: list[str]) -> dict[str, int]:
    keys = [(user_id,) for user_id in users]
    return dict(bulk.find(connection, run_event_counts, ("user_id",), ("newest",), keys))
