"""Messages are appended once, in order, by the current attempt of a run, and read from either end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import Connection, text

from runtime.clock import SYSTEM
from runtime.crypto import Unsealable
from runtime.database.connection import Database
from runtime.database.schema import messages as table
from runtime.errors import NotFound
from runtime.threads.content import DataPart, EventPart, Part, TextPart, ToolCallPart, ToolOutputPart
from runtime.threads.messages import Messages
from runtime.threads.run_log import RunLog
from runtime.threads.step import Superseded
from runtime.threads.thread import Thread, Threads
from runtime.threads.thread_write import ThreadGone
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.runtime.threads.thread_runs import begin, count, end, plans, reads_everything, said, statements, texts
from tests.runtime.webhooks.candidates import rows

ALL_KINDS: tuple[Part, ...] = (
    TextPart("hello"),
    DataPart("pull request 42", "application/json", '{"action":"opened"}'),
    ToolCallPart("call-1", "memory_append", '{"label":"human"}'),
    ToolOutputPart("call-1", "memory_append", "no such block", "error"),
    EventPart("max_steps", "The run ended after 10 steps."),
)


@pytest.fixture
def messages(database: Database, clock: ManualClock) -> Messages:
    return Messages(database, clock)


@pytest.fixture
async def thread(database: Database, clock: ManualClock) -> Thread:
    return await Threads(database, clock).main("owner", "helper")


@pytest.fixture
async def daemons(postgres_url: str) -> AsyncIterator[list[Database]]:
    """Two daemons on one PostgreSQL."""
    opened = [await Database.open(postgres_url, KEY) for _ in range(2)]
    yield opened
    for each in opened:
        await each.close()


async def test_messages_have_positions_in_the_order_of_their_appending(
    database: Database, clock: ManualClock, messages: Messages, thread: Thread
) -> None:
    clock.advance(5)
    first = await messages.append(thread, [said("one", tokens=3), said("two")])
    second = await messages.append(thread, [said("three", role="assistant", kind="reasoning")])
    assert [message.position for message in (*first, *second)] == [0, 1, 2]
    assert await messages.read(thread) == [*first, *second]
    assert (first[0].tokens, first[0].user_id, first[0].thread_id) == (3, "owner", thread.id)
    assert (second[0].role, second[0].kind, second[0].run_id) == ("assistant", "reasoning", None)
    found = await Threads(database, clock).get(thread.id)
    assert (found.length, found.message_count) == (3, 3)
    assert found.updated_at == thread.updated_at + 5000
    assert await messages.count(thread) == 3


async def test_every_kind_of_content_is_read_as_it_was_written(messages: Messages, thread: Thread) -> None:
    [stored] = await messages.append(thread, [said("", parts=ALL_KINDS)])
    [found] = await messages.read(thread)
    assert found.parts == stored.parts == ALL_KINDS
    assert found.text.split("\n\n")[1:3] == [
        'pull request 42\n{"action":"opened"}',
        'memory_append {"label":"human"}',
    ]


@pytest.mark.parametrize("words", ["", "\x00", "x" * 1_000_000, "日本 🙂", "a\ud800b"])
async def test_any_text_can_be_stored(messages: Messages, thread: Thread, words: str) -> None:
    await messages.append(thread, [said(words)])
    assert texts(await messages.read(thread)) == [words.replace("\ud800", "\ufffd")]


async def test_no_text_is_readable_in_the_database(database: Database, messages: Messages, thread: Thread) -> None:
    await messages.append(thread, [said("okapiquux")])
    [row] = await rows(database, table)
    assert not any(b"okapiquux" in bytes(str(value), "utf-8") for value in row)
    assert b"okapiquux" not in row.content


async def test_a_message_moved_to_another_row_is_not_read(
    database: Database, messages: Messages, thread: Thread
) -> None:
    await messages.append(thread, [said("one"), said("two")])
    moved = "UPDATE messages SET content = (SELECT content FROM messages WHERE position = 0) WHERE position = 1"
    async with database.write() as connection:
        await connection.execute(text(moved))
    with pytest.raises(Unsealable, match="moved from another row"):
        await messages.read(thread)


async def test_a_message_with_a_key_is_appended_once_in_a_run(
    database: Database, messages: Messages, thread: Thread
) -> None:
    run = await begin(database, thread.id)
    [first] = await messages.append(thread, [said("as it was", key="reply")], run_id=run, attempt=1)
    again = await messages.append(thread, [said("as it is", key="reply"), said("new", key="b")], run_id=run, attempt=1)
    assert again[0] == first
    assert [message.position for message in again] == [0, 1]
    twice = await messages.append(thread, [said("x", key="c"), said("y", key="c")], run_id=run, attempt=1)
    assert twice[0] == twice[1]
    other = await begin(database, thread.id)
    await messages.append(thread, [said("of another run", key="reply")], run_id=other, attempt=1)
    assert texts(await messages.read(thread)) == ["as it was", "new", "x", "of another run"]


async def test_messages_without_a_key_are_all_appended(database: Database, messages: Messages, thread: Thread) -> None:
    run = await begin(database, thread.id)
    for _ in range(2):
        await messages.append(thread, [said("same"), said("same")], run_id=run, attempt=1)
    assert await messages.count(thread) == 4


@pytest.mark.parametrize("key", ["", "k" * 81])
async def test_a_key_has_a_length_that_can_be_stored(messages: Messages, thread: Thread, key: str) -> None:
    with pytest.raises(ValueError, match="1 to 80 characters"):
        await messages.append(thread, [said("x", key=key)])


async def test_an_attempt_that_is_not_the_current_one_appends_nothing(
    database: Database, messages: Messages, thread: Thread
) -> None:
    run = await begin(database, thread.id)
    await begin(database, thread.id, run_id=run, attempt=2)
    with pytest.raises(Superseded):
        await messages.append(thread, [said("late")], run_id=run, attempt=1)
    await messages.append(thread, [said("current", key="a")], run_id=run, attempt=2)
    ended = await begin(database, thread.id)
    await end(database, ended)
    for unknown in (ended, "no-such-run"):
        with pytest.raises(Superseded):
            await messages.append(thread, [said("late")], run_id=unknown, attempt=1)
    # What is not fenced may be appended after the end of a run.
    await messages.append(thread, [said("why it ended")], run_id=ended)
    assert texts(await messages.read(thread)) == ["current", "why it ended"]


async def test_nothing_is_appended_to_a_thread_of_another_user(
    database: Database, messages: Messages, thread: Thread
) -> None:
    other = await Threads(database, SYSTEM).main("ada", "helper")
    for wrong in ("nothing", other.id):
        stolen = Thread(**{name: getattr(thread, name) for name in thread.__struct_fields__} | {"id": wrong})
        with pytest.raises(ThreadGone, match="was deleted"):
            await messages.append(stolen, [said("x")])
    assert await count(database, "messages") == 0


async def test_a_refused_write_does_not_stop_the_others_of_its_transaction(
    database: Database, messages: Messages, thread: Thread
) -> None:
    run = await begin(database, thread.id)
    found = await asyncio.gather(
        messages.append(thread, [said("one", key="a")], run_id=run, attempt=1),
        messages.append(thread, [said("late", key="b")], run_id=run, attempt=7),
        messages.append(thread, [said("two", key="c")], run_id=run, attempt=1),
        return_exceptions=True,
    )
    assert [type(each) for each in found] == [list, Superseded, list]
    assert texts(await messages.read(thread)) == ["one", "two"]


async def test_a_step_and_the_messages_that_follow_from_it_are_one_commit(
    database: Database, clock: ManualClock, messages: Messages, thread: Thread
) -> None:
    run = await begin(database, thread.id)
    log = RunLog(database, clock, run, 1)
    commits: list[int] = []

    async def model() -> str:
        database.commits.on_commit = lambda writes, seconds: commits.append(writes)
        return "hello"

    await log.step("model", {}, model, key="model-1")
    appended = messages.put(thread, [said("hello", role="assistant", key="m1")], run_id=run, attempt=1)
    next_step = asyncio.create_task(log.step("tool", {}, model, key="tool-1"))
    await appended
    assert commits[0] == 2 or commits[0] == 3
    await next_step
    await log.settle()


async def test_pages_are_read_from_either_end(messages: Messages, thread: Thread) -> None:
    await messages.append(thread, [said(str(number)) for number in range(10)])
    assert texts(await messages.read(thread, limit=3)) == ["0", "1", "2"]
    assert texts(await messages.read(thread, after=2, limit=3)) == ["3", "4", "5"]
    assert texts(await messages.read(thread, after=2, before=5)) == ["3", "4"]
    assert texts(await messages.newest(thread, limit=3)) == ["7", "8", "9"]
    assert texts(await messages.newest(thread, before=7, limit=3)) == ["4", "5", "6"]
    assert await messages.newest(thread, before=0) == []
    assert await messages.read(thread, after=9) == []


async def test_the_newest_messages_are_read_until_the_tokens_are_used(messages: Messages, thread: Thread) -> None:
    assert await messages.newest_within(thread, 100) == []
    await messages.append(thread, [said(str(number), tokens=number) for number in range(10)])
    assert texts(await messages.newest_within(thread, 17)) == ["8", "9"]
    assert texts(await messages.newest_within(thread, 24)) == ["7", "8", "9"]
    assert texts(await messages.newest_within(thread, 1000)) == [str(number) for number in range(10)]
    assert texts(await messages.newest_within(thread, 1000, after=6)) == ["7", "8", "9"]
    # The newest one is there even when it is too large.
    assert texts(await messages.newest_within(thread, 3)) == ["9"]
    assert texts(await messages.newest_within(thread, 0)) == ["9"]


async def test_reading_back_costs_the_same_in_a_long_thread(
    database: Database, messages: Messages, thread: Thread
) -> None:
    other = await Threads(database, SYSTEM).conversation("owner", "helper")
    costs = []
    for each, number in ((other, 200), (thread, 10_000)):
        for start in range(0, number, 1000):
            await messages.append(each, [said(str(n), tokens=10) for n in range(start, min(start + 1000, number))])
        async with database.write() as connection:
            await connection.execute(text("ANALYZE"))
        with statements() as recorded:
            assert len(await messages.newest_within(each, 1000)) == 100
            assert len(await messages.newest(each, limit=5)) == 5
            assert len(await messages.read(each, after=100, limit=5)) == 5
            assert await messages.count(each) == number
        costs.append(len(recorded))
    assert costs[0] == costs[1]
    shown = await plans(database, recorded)
    assert shown
    assert [plan for plan in shown if reads_everything(plan)] == []


async def test_a_deleted_message_leaves_its_position_empty(
    database: Database, messages: Messages, thread: Thread
) -> None:
    await messages.append(thread, [said(str(number)) for number in range(4)])
    await messages.delete(thread, 1)
    await messages.append(thread, [said("4")])
    assert [(m.position, m.text) for m in await messages.read(thread)] == [(0, "0"), (2, "2"), (3, "3"), (4, "4")]
    assert await messages.count(thread) == 4
    assert (await Threads(database, SYSTEM).get(thread.id)).message_count == 4
    for position in (1, 9):
        with pytest.raises(NotFound, match=f"no message at position {position}"):
            await messages.delete(thread, position)
    assert await messages.count(thread) == 4
    assert texts(await messages.newest_within(thread, 3)) == ["2", "3", "4"]


async def test_two_daemons_append_to_one_thread_without_gaps(daemons: list[Database]) -> None:
    thread = await Threads(daemons[0], SYSTEM).main("owner", "helper")
    writers = [Messages(each, SYSTEM) for each in daemons]
    runs = [await begin(each, thread.id) for each in daemons]

    async def write(number: int) -> None:
        daemon = number % 2
        new = [said(f"{number}/{n}", key=f"{number}/{n}") for n in range(3)]
        await writers[daemon].append(thread, new, run_id=runs[daemon], attempt=1)

    await asyncio.gather(*(write(number) for number in range(200)))
    found = await writers[0].read(thread, limit=1000)
    assert [message.position for message in found] == list(range(600))
    assert len({message.text for message in found}) == 600
    # The messages of one write are together.
    assert [message.text for message in found[:3]] == [f"{found[0].text[:-1]}{n}" for n in range(3)]
    assert await deadlocks(daemons[0]) == 0


async def deadlocks(database: Database) -> int:
    """Return how many transactions PostgreSQL has ended because they waited for each other in a circle."""

    def read(connection: Connection) -> int:
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
        query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return int(connection.execute(text(query)).scalar_one())

    return await database.transact(read)
