"""Daemons on one PostgreSQL notify each other; after a lost connection a daemon checks as soon as it can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.notifications import INBOX, WEBHOOKS, Notifications, notify
from tests.runtime.webhooks.candidates import cut_off


class Heard:
    """Counts notifications."""

    def __init__(self) -> None:
        self.count = 0
        self.event = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self.event.set()

    async def next(self) -> None:
        async with asyncio.timeout(60):
            await self.event.wait()
        self.event.clear()


@asynccontextmanager
async def listening(database: Database, channel: str = INBOX) -> AsyncIterator[tuple[Notifications, Heard]]:
    """Yield notifications with a connection: every new connection calls back."""
    notifications, heard = Notifications(database, again=0.01, alive=0.1), Heard()
    notifications.listen(channel, heard)
    task = asyncio.create_task(notifications.run())
    await heard.next()
    yield notifications, heard
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


@pytest.fixture
async def two(postgres_url: str, master_key: MasterKey) -> AsyncIterator[tuple[Database, Database]]:
    databases = await Database.open(postgres_url, master_key), await Database.open(postgres_url, master_key)
    yield databases
    for database in databases:
        await database.close()


async def test_what_one_tells_the_other_hears(two: tuple[Database, Database]) -> None:
    async with listening(two[0]) as (mine, my_heard), listening(two[1]) as (_, heard):
        mine.send(INBOX)
        await heard.next()
        assert my_heard.count == 1, "nobody is woken by what it told itself"


async def test_many_wake_ups_at_once_are_few(two: tuple[Database, Database]) -> None:
    async with listening(two[0]) as (mine, _), listening(two[1]) as (_, heard):
        for _ in range(1000):
            mine.send(INBOX)
        await heard.next()
        assert heard.count < 10


async def test_a_transaction_wakes_when_it_commits_and_not_otherwise(two: tuple[Database, Database]) -> None:
    async with listening(two[1], WEBHOOKS) as (_, heard):

        def broken(connection: Connection) -> None:
            notify(connection, WEBHOOKS)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await two[0].transact(broken)
        assert heard.count == 1
        await two[0].transact(lambda connection: notify(connection, WEBHOOKS))
        await heard.next()


async def test_a_lost_connection_is_made_again_and_everything_is_looked_at(two: tuple[Database, Database]) -> None:
    async with listening(two[0]) as (mine, _), listening(two[1]) as (_, heard):
        for _ in range(3):
            await cut_off(two[0])
            await heard.next()
        async with asyncio.timeout(60):
            while not heard.event.is_set():
                mine.send(INBOX)
                await asyncio.sleep(0.01)


async def test_on_sqlite_nobody_is_there_to_be_woken(tmp_path: Path, master_key: MasterKey) -> None:
    database = await Database.open(tmp_path / "db", master_key)
    notifications = Notifications(database)
    notifications.listen(INBOX, lambda: None)
    await notifications.run()
    notifications.send(INBOX)
    await database.transact(lambda connection: notify(connection, INBOX))
    await database.close()
