"""The log of changed threads tells each reader every change, or that it must compare everything."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import Connection

from runtime.database.connection import Database
from runtime.database.schema import thread_changes
from runtime.threads import change_log, thread_retention
from runtime.threads.change_log import ChangedThread
from runtime.threads.messages import Messages
from runtime.threads.summaries import Summaries
from runtime.threads.thread import Thread, Threads
from tests.clocks import ManualClock
from tests.runtime.threads.test_summaries import summary
from tests.runtime.threads.thread_runs import all_ended, count, said

MANY = 100


class Reader:
    """A reader that knows everything that was there when it was made."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._number = 0

    async def begin(self) -> Reader:
        await all_ended(self._database)
        return await self.begin_now()

    async def begin_now(self) -> Reader:
        async with self._database.read() as connection:
            self._number = await connection.run_sync(change_log.next_number)
        return self

    async def changed_threads(self, limit: int = MANY, kept: int = change_log.KEPT) -> list[ChangedThread] | None:
        """Return what changed since the last call, after all transactions have ended that began before it."""
        await all_ended(self._database)
        return await self.changed_now(limit, kept)

    async def changed_now(self, limit: int = MANY, kept: int = change_log.KEPT) -> list[ChangedThread] | None:
        def read(connection: Connection) -> tuple[int, list[ChangedThread] | None]:
            return change_log.next_number(connection), change_log.changed_threads(connection, self._number, limit, kept)

        async with self._database.read() as connection:
            self._number, found = await connection.run_sync(read)
        return found

    async def ids(self) -> list[str]:
        return _ids(await self.changed_threads())

    async def ids_now(self) -> list[str]:
        return _ids(await self.changed_now())


def _ids(found: list[ChangedThread] | None) -> list[str]:
    assert found is not None
    return sorted(each.thread_id for each in found)


@pytest.fixture
def threads(database: Database, clock: ManualClock) -> Threads:
    return Threads(database, clock)


@pytest.fixture
def messages(database: Database, clock: ManualClock) -> Messages:
    return Messages(database, clock)


@pytest.fixture
async def thread(threads: Threads, messages: Messages) -> Thread:
    made = await threads.conversation("owner", "helper")
    await messages.append(made, [said("first")])
    return made


@pytest.fixture
async def reader(database: Database, thread: Thread) -> Reader:
    return await Reader(database).begin()


async def test_each_kind_of_change_is_told_once(
    database: Database, clock: ManualClock, threads: Threads, messages: Messages, thread: Thread, reader: Reader
) -> None:
    assert await reader.ids() == []
    await messages.append(thread, [said("second")])
    assert await reader.ids() == [thread.id]
    await messages.delete(thread, 0)
    assert await reader.ids() == [thread.id]
    await Summaries(database, clock).append(thread, summary(1))
    assert await reader.ids() == [thread.id]
    await threads.rename(thread, "a title")
    assert await reader.ids() == []
    await threads.delete(thread)
    assert await reader.changed_threads() == [ChangedThread(thread.id, "helper", 0, 2, 1)]
    assert await reader.ids() == []


async def test_threads_deleted_by_the_retention_are_told(
    database: Database, clock: ManualClock, thread: Thread, reader: Reader
) -> None:
    assert await thread_retention.prune(database, {"helper": 1}, int(clock.now() * 1000) + 10_000) == 1
    assert await reader.ids() == [thread.id]


async def test_a_write_that_stores_nothing_is_no_change(messages: Messages, thread: Thread, reader: Reader) -> None:
    await messages.append(thread, [])
    assert await reader.ids() == []


async def test_a_transaction_that_ends_late_is_told_when_it_has_ended(
    database: Database, threads: Threads, messages: Messages, reader: Reader, thread: Thread
) -> None:
    if database.kind == "sqlite":
        pytest.skip("transactions follow one another")
    other = await threads.conversation("owner", "helper")
    writes = await database.session()
    try:
        change = writes.transaction()
        await change.start()
        columns = "txid_current(), id, agent, part, 1, 0"
        await writes.execute(f"INSERT INTO thread_changes SELECT {columns} FROM threads WHERE id = $1", other.id)
        await messages.append(thread, [said("second")])
        assert await reader.ids_now() == [thread.id]
        await change.commit()
        assert other.id in await reader.ids()
    finally:
        await writes.close()


async def test_a_transaction_from_before_the_first_change_hides_no_change(
    database: Database, threads: Threads, messages: Messages
) -> None:
    if database.kind == "sqlite":
        pytest.skip("transactions follow one another")
    thread = await threads.conversation("owner", "helper")
    writes = await database.session()
    try:
        running = writes.transaction()
        await running.start()
        await writes.execute("SELECT txid_current()")
        await messages.append(thread, [said("first")])
        reader = await Reader(database).begin_now()
        assert await reader.ids_now() == [thread.id]
        await running.rollback()
        assert await reader.ids() == [thread.id]
        assert await reader.ids() == []
    finally:
        await writes.close()


async def test_more_changes_than_are_wanted_are_not_told_one_by_one(
    threads: Threads, messages: Messages, reader: Reader
) -> None:
    made = [await threads.conversation("owner", "helper") for _ in range(4)]
    await asyncio.gather(*(messages.append(each, [said("a")]) for each in made))
    assert await reader.changed_threads(limit=3) is None
    assert await reader.changed_threads(limit=3) is not None


async def test_a_reader_behind_the_log_must_compare_everything(
    database: Database, messages: Messages, thread: Thread, reader: Reader
) -> None:
    ahead = Reader(database)
    for number in range(6):
        await messages.append(thread, [said(str(number))])
        if number == 3:
            await ahead.begin()
    while await database.transact(lambda connection: change_log.prune(connection, 2)):
        pass
    assert await count(database, "thread_changes") == 3
    assert await reader.changed_threads(kept=2) is None
    assert await ahead.changed_threads(kept=2) == [ChangedThread(thread.id, "helper", 0, 7, 0)]


async def test_numbers_go_on_when_the_log_was_shortened(
    database: Database, messages: Messages, thread: Thread, reader: Reader
) -> None:
    await messages.append(thread, [said("second")])
    assert await reader.ids() == [thread.id]
    while await database.transact(lambda connection: change_log.prune(connection, 0)):
        pass
    await messages.append(thread, [said("third")])
    assert await reader.ids() == [thread.id]


async def test_numbers_of_a_database_from_another_server_are_deleted(
    database: Database, messages: Messages, thread: Thread, reader: Reader
) -> None:
    if database.kind == "sqlite":
        pytest.skip("numbers do not depend on a server")
    copy = thread_changes.insert().values(
        number=2**60, thread_id="x", agent="helper", part=0, length=1, summary_count=0
    )
    await database.transact(lambda connection: connection.execute(copy))
    assert await reader.ids_now() == ["x"]
    await database.transact(change_log.prune)
    await messages.append(thread, [said("second")])
    assert await reader.ids() == [thread.id]
