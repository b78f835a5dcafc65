"""The event log: in the order of the commits, each event once, kept for a day, deleted with its thread and its user."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from runtime.database.connection import Database
from runtime.database.group_commit import Stage
from runtime.database.schema import run_events
from runtime.database.transaction_end import Changes, at_end
from runtime.identity import users
from runtime.identity.belongings import delete_rows
from runtime.threads import thread_retention
from runtime.threads.events.log import EventLog, StoredEvent, changes_of
from runtime.threads.events.other_daemons import OtherDaemons
from runtime.threads.events.run_event import RunEvent
from runtime.threads.messages import Messages
from runtime.threads.thread import Thread, Threads
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.lanes import LONG
from tests.runtime.threads.thread_runs import begin, count, said

DAY_MS = 86_400_000


@pytest.fixture
def log(database: Database, clock: ManualClock) -> EventLog:
    return EventLog(database, clock)


async def append(database: Database, log: EventLog, *events: RunEvent) -> None:
    await database.transact(lambda connection: append_all(connection, log, events))


def append_all(connection: Connection, log: EventLog, events: Sequence[RunEvent]) -> list[Exception | None]:
    for event in events:
        log.append(connection, event)
    return [None] * len(events)


def noted(run_id: str, text: str, key: str | None = None) -> RunEvent:
    return RunEvent(run_id, "agent.message", {"text": text}, key)


async def all_of(log: EventLog, user_id: str = "owner", **wanted: Any) -> list[StoredEvent]:
    return (await log.page(user_id, 0, **wanted)).events


def shown(found: list[StoredEvent]) -> list[tuple[int, Any]]:
    return [(event.number, event.data["text"]) for event in found]


async def test_events_are_numbered_for_each_user_and_opened_for_them_alone(database: Database, log: EventLog) -> None:
    mine, theirs = await begin(database, None), await begin(database, None, user_id="ada")
    await append(database, log, noted(mine, "a"), noted(theirs, "x"), noted(mine, "b"))
    await append(database, log, noted(mine, "c"))
    assert shown(await all_of(log)) == [(1, "a"), (2, "b"), (3, "c")]
    assert shown(await all_of(log, "ada")) == [(1, "x")]
    assert shown(await all_of(log, run_id=theirs)) == []
    async with database.read() as connection:
        [*contents] = (await connection.execute(select(run_events.c.content))).scalars()
    assert not any(b"text" in content for content in contents)


async def test_an_event_is_there_if_and_only_if_its_transaction_is(database: Database, log: EventLog) -> None:
    run_id = await begin(database, None)

    def fails(connection: Any) -> None:
        log.append(connection, noted(run_id, "lost"))
        raise ValueError("later")

    with pytest.raises(ValueError, match="later"):
        await database.transact(fails)
    await append(database, log, noted(run_id, "kept"))
    assert shown(await all_of(log)) == [(1, "kept")]
    async with database.write() as connection:
        with pytest.raises(RuntimeError):
            await connection.run_sync(log.append, noted(run_id, "outside"))


async def test_an_event_with_a_key_is_written_once(database: Database, log: EventLog) -> None:
    run_id, other = await begin(database, None), await begin(database, None)
    await append(database, log, noted(run_id, "a", "1"), noted(run_id, "again", "1"), noted(other, "b", "1"))
    await append(database, log, noted(run_id, "again", "1"), noted(run_id, "c", "2"), noted(run_id, "d"))
    await append(database, log, noted(run_id, "d"))
    assert [text for _, text in shown(await all_of(log, run_id=run_id))] == ["a", "c", "d", "d"]


def append_all_to(log: EventLog, connection: Connection, events: Sequence[RunEvent]) -> list[Exception | None]:
    return append_all(connection, log, events)


async def test_an_event_of_a_run_that_is_gone_is_not_written(database: Database, log: EventLog) -> None:
    await append(database, log, noted("00000000-0000-7000-8000-000000000000", "a"))
    assert await all_of(log) == []


async def test_a_reader_that_goes_on_after_a_number_misses_nothing(
    database: Database, log: EventLog, clock: ManualClock
) -> None:
    """Whatever the transactions of two writers overlap."""
    run_id, seen, after = await begin(database, None), list[str](), 0
    second = EventLog(database, clock)
    stages = [Stage(4, partial(append_all_to, log)), Stage(4, partial(append_all_to, second))]
    writing = asyncio.gather(
        *(database.commits.store(stages[number % 2], noted(run_id, str(number))) for number in range(200)),
        *(append(database, log, noted(run_id, f"t{number}")) for number in range(20)),
    )
    while len(seen) < 220:
        page = await log.page("owner", after, limit=7)
        assert [event.number for event in page.events] == sorted(event.number for event in page.events)
        assert all(event.number > after for event in page.events)
        seen += [event.data["text"] for event in page.events]
        after = page.read_to
    await writing
    assert sorted(seen) == sorted([*map(str, range(200)), *(f"t{number}" for number in range(20))])


@LONG
async def test_two_daemons_with_many_users_number_without_gaps_and_without_deadlocks(
    postgres_url: str, clock: ManualClock
) -> None:
    databases = [await Database.open(postgres_url, KEY) for _ in range(2)]
    try:
        names = [f"user{number}" for number in range(8)]
        runs = [await begin(databases[0], None, user_id=name) for name in names]
        logs = [EventLog(database, clock) for database in databases]

        async def write(place: int, number: int) -> None:
            order = runs if (place + number) % 2 else runs[::-1]
            await append(databases[place], logs[place], *(noted(run_id, str(number)) for run_id in order))

        await asyncio.gather(*(write(place, number) for number in range(50) for place in range(2)))
        for name in names:
            found = await all_of(logs[0], name)
            assert [event.number for event in found] == list(range(1, 101))
    finally:
        for database in databases:
            await database.close()


async def test_what_a_transaction_does_last_sees_all_of_it(database: Database) -> None:
    found: list[Any] = []

    def work(connection: Any) -> None:
        at_end(connection, lambda _, items: found.append(tuple(items)), "x")
        found.append("first")

    await database.transact(work)
    assert found == ["first", ("x",)]


async def test_who_watches_a_user_is_told_after_the_commit(database: Database, log: EventLog) -> None:
    run_id = await begin(database, None)
    with database.changes.watch(changes_of("owner")) as mine, database.changes.watch(changes_of("ada")) as theirs:
        await append(database, log, noted(run_id, "a"))
        assert (mine.is_set(), theirs.is_set()) == (True, False)
    assert list(database.changes.watched_names) == []


async def test_events_are_deleted_with_their_thread(
    database: Database, clock: ManualClock, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.threads.removal.deletion.CHUNK", 3)
    threads = Threads(database, clock)
    gone, stays = [await threads.conversation("owner", "helper") for _ in range(2)]
    for thread in (gone, stays):
        run_id = await begin(database, thread.id)
        await append(database, log, *(noted(run_id, str(number)) for number in range(8)))
    await threads.delete(gone)
    assert {event.thread_id for event in await all_of(log)} == {stays.id}
    assert len(await all_of(log)) == 8


async def test_events_are_kept_for_a_day(
    database: Database, clock: ManualClock, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.threads.events.log.CHUNK", 3)
    run_id = await begin(database, None)
    await append(database, log, *(noted(run_id, str(number)) for number in range(7)))
    async with database.read() as connection:
        at = (await connection.execute(select(run_events.c.created_at).limit(1))).scalar_one()
    await thread_retention.prune(database, {}, at + DAY_MS)
    assert len(await all_of(log)) == 7
    await append(database, log, noted(run_id, "new"))
    await database.transact(
        lambda connection: connection.execute(
            update(run_events).where(run_events.c.number == 8).values(created_at=at + 1)
        )
    )
    await thread_retention.prune(database, {}, at + DAY_MS + 1)
    assert shown(await all_of(log)) == [(8, "new")]
    assert await log.bounds("owner") == (8, 8)


async def test_events_are_deleted_with_their_user(database: Database, log: EventLog) -> None:
    user_id = await users.add(database, "ada", 1)
    run_id, mine = await begin(database, None, user_id=user_id), await begin(database, None)
    await append(database, log, noted(run_id, "a"), noted(mine, "b"))
    counts, _ = await delete_rows(database, user_id)
    assert (counts["run_events"], counts["run_event_counts"]) == (1, 1)
    assert shown(await all_of(log)) == [(1, "b")]


async def test_a_message_is_told_once_however_often_it_is_appended(
    database: Database, clock: ManualClock, log: EventLog
) -> None:
    thread = await Threads(database, clock).main("owner", "helper")
    run_id, messages = await begin(database, thread.id), Messages(database, clock)
    for _ in range(2):
        await put(messages, thread, run_id, noted(run_id, "a"))
    assert shown(await all_of(log)) == [(1, "a")]


async def put(messages: Messages, thread: Thread, run_id: str, event: RunEvent) -> None:
    await messages.append(thread, [said("a", key="1/message", events=(event,))], run_id=run_id, attempt=1)


async def test_lone_surrogates_do_not_fail_the_transaction(database: Database, log: EventLog) -> None:
    run_id = await begin(database, None)
    await append(database, log, noted(run_id, "a\ud800b"))
    assert shown(await all_of(log)) == [(1, "a\ufffdb")]


@LONG
async def test_events_of_another_daemon_wake_who_waits_here(postgres_url: str, clock: ManualClock) -> None:
    here, there = [await Database.open(postgres_url, KEY) for _ in range(2)]
    others = OtherDaemons(here, clock, poll=0.05)
    looking = asyncio.create_task(others.run())
    try:
        run_id = await begin(here, None)
        with here.changes.watch(changes_of("owner")) as changed:
            await asyncio.sleep(0.2)
            changed.clear()
            await append(there, EventLog(there, clock), noted(run_id, "a"))
            async with asyncio.timeout(60):
                await changed.wait()
    finally:
        looking.cancel()
        await asyncio.wait([looking])
        await here.close()
        await there.close()


def test_changes_are_told_to_those_alone_who_watch_them() -> None:
    changes, published = Changes(), list[None]()
    changes.on_publish = lambda: published.append(None)
    with changes.watch("a") as first, changes.watch("a") as second, changes.watch("b") as other:
        changes.publish_commit({"a": [1]})
        changes.publish_commit({})
        assert (first.is_set(), second.is_set(), other.is_set()) == (True, True, False)
        assert [list(each.events) for each in (first, second, other)] == [[1], [1], []]
    assert published == [None]


async def test_the_log_is_empty_at_first(database: Database, log: EventLog) -> None:
    assert await log.bounds("owner") == (None, 0)
    assert await count(database, "run_events") == 0


async def test_looking_for_events_of_other_daemons_ends_when_it_is_told_of_some_at_the_same_time(
    postgres_url: str, clock: ManualClock
) -> None:
    database = await Database.open(postgres_url, KEY)
    try:
        others = OtherDaemons(database, clock, poll=60)
        looking = asyncio.create_task(others.run())
        await asyncio.sleep(0.05)
        others.on_announcement()
        await asyncio.sleep(0)
        looking.cancel()
        async with asyncio.timeout(20):
            await asyncio.wait({looking})
        assert looking.cancelled()
    finally:
        await database.close()
