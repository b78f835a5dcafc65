"""A deleted thread is gone at once with what hangs on it; an interrupted deletion is completed later."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest
from sqlalchemy import Connection, Engine, event, select, text

from runtime.clock import SYSTEM, milliseconds, uuid7
from runtime.crypto import SealedBytes
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import blocks, inputs, messages, runs, steps, summaries, thread_turns
from runtime.database.schema import threads as table
from runtime.errors import Conflict, NotFound
from runtime.identity import belongings
from runtime.threads.content import Deletion
from runtime.threads.messages import Messages
from runtime.threads.removal import deletion, quotes
from runtime.threads.run_log import RunLog
from runtime.threads.summaries import Summaries
from runtime.threads.thread import Thread, Threads
from runtime.threads.thread_retention import prune
from runtime.threads.thread_write import ThreadGone
from runtime.threads.turns.turn import LIVING
from tests.clocks import ManualClock
from tests.lanes import LONG
from tests.runtime.threads.test_summaries import summary
from tests.runtime.threads.thread_runs import begin, count, end, many_threads, said, texts
from tests.runtime.webhooks.candidates import rows

DAY = 86_400


@pytest.fixture
def threads(database: Database, clock: ManualClock) -> Threads:
    return Threads(database, clock)


@pytest.fixture
def stored(database: Database, clock: ManualClock) -> Messages:
    return Messages(database, clock)


@pytest.fixture
async def thread(threads: Threads) -> Thread:
    return await threads.for_subject("owner", "helper", "okapiquux")


async def send(database: Database, thread: Thread, state: str, *, run_id: str | None = None) -> str:
    """Store an input of a thread in this state. One that has not ended is in the thread."""
    turn_id = uuid7(SYSTEM)
    of = {"id": turn_id, "user_id": thread.user_id, "agent": thread.agent, "thread_id": thread.id}
    turn = {"state": state, "run_id": run_id, "attempt": 1, "tries": 1, "next_attempt_at": 1}
    row = {**of, **turn, "scopes": "", "content": SealedBytes(b"x"), "created_at": 1}
    await database.transact(lambda connection: connection.execute(inputs.insert().values(**row)))
    if state in LIVING:
        await enter(database, thread, turn_id, kind="message", active=state != "waiting")
    return turn_id


async def enter(
    database: Database, thread: Thread, turn_id: str, *, kind: str = "delivery", active: bool = True
) -> None:
    """Let a turn hold a thread, or wait for it."""
    row = turn_id, thread.user_id, thread.id, kind, 1, active
    columns = ("turn_id", "user_id", "thread_id", "kind", "arrived_at", "active")
    await database.transact(lambda connection: bulk.insert(connection, thread_turns, columns, [row]))


async def step(database: Database, clock: ManualClock, run_id: str) -> None:
    async def act() -> str:
        return "reply"

    log = RunLog(database, clock, run_id, 1)
    await log.step("model", {}, act)
    await log.settle()


async def test_all_that_hangs_on_a_thread_goes_with_it(
    database: Database, clock: ManualClock, threads: Threads, stored: Messages, thread: Thread
) -> None:
    kept = await threads.main("owner", "helper")
    for each in (thread, kept):
        run_id = await begin(database, each.id)
        await stored.append(each, [said("a", key="a"), said("b")], run_id=run_id, attempt=1)
        await Summaries(database, clock).append(each, summary(1))
        await step(database, clock, run_id)
        await end(database, run_id)
        await send(database, each, "done", run_id=run_id)
    await threads.delete(thread)
    for part in (messages, summaries, inputs, runs):
        assert {row.thread_id for row in await rows(database, part)} == {kept.id}, part.name
    assert [row.id for row in await rows(database, table)] == [kept.id]
    assert await count(database, "steps") == 1
    with pytest.raises(NotFound):
        await threads.get(thread.id)
    with pytest.raises(NotFound):
        await threads.delete(thread)
    with pytest.raises(NotFound):
        await threads.rename(thread, "x")
    with pytest.raises(ThreadGone):
        await stored.append(thread, [said("late")])
    assert texts(await stored.read(kept)) == ["a", "b"]


async def test_a_deleted_main_or_keyed_thread_is_followed_by_a_new_one(threads: Threads, thread: Thread) -> None:
    main = await threads.main("owner", "helper")
    await threads.delete(main)
    await threads.delete(thread)
    assert (await threads.main("owner", "helper")).id != main.id
    assert (await threads.for_subject("owner", "helper", "okapiquux")).id != thread.id


async def test_the_blocks_of_its_subject_stay(database: Database, threads: Threads, thread: Thread) -> None:
    of = {"id": "b", "user_id": "owner", "agent": "helper", "subject": "okapiquux", "subject_key": "k"}
    about = {"label": "human", "description": "", "char_limit": 1, "read_only": False}
    row = {**of, **about, "value": SealedBytes(b"x"), "version": 1, "created_at": 1, "updated_at": 1}
    await database.transact(lambda connection: connection.execute(blocks.insert().values(**row)))
    await threads.delete(thread)
    assert await count(database, "blocks") == 1


async def test_runs_of_deliveries_stay_and_lose_the_steps_that_repeat_the_conversation(
    database: Database, clock: ManualClock, threads: Threads, thread: Thread
) -> None:
    made = {}
    for state in ("done", "dead"):
        run_id = await begin(database, thread.id, delivery_id=f"delivery-{state}")
        await step(database, clock, run_id)
        await end(database, run_id, state)
        made[state] = run_id
    await threads.delete(thread)
    assert {row.id: row.thread_id for row in await rows(database, runs)} == dict.fromkeys(made.values())
    # A dead letter that is sent again goes on after its last step.
    assert {row.run_id for row in await rows(database, steps)} == {made["dead"]}


@pytest.mark.parametrize("state", ["queued", "running", "waiting"])
async def test_a_thread_with_a_waiting_message_is_deleted_only_by_force(
    database: Database, threads: Threads, thread: Thread, state: str
) -> None:
    await send(database, thread, state)
    with pytest.raises(Conflict, match="at work"):
        await threads.delete(thread)
    assert await threads.get(thread.id) == thread
    await threads.delete(thread, force=True)
    assert await count(database, "threads") == 0
    # A running one stays until its run ends.
    assert await count(database, "inputs") == (state == "running")


async def test_a_run_in_a_thread_that_was_deleted_by_force_cannot_write_to_it(
    database: Database, clock: ManualClock, threads: Threads, stored: Messages, thread: Thread
) -> None:
    run_id = await begin(database, thread.id)
    await send(database, thread, "running", run_id=run_id)
    with pytest.raises(Conflict):
        await threads.delete(thread)
    await threads.delete(thread, force=True)
    with pytest.raises(ThreadGone):
        await stored.append(thread, [said("late", key="a")], run_id=run_id, attempt=1)
    await step(database, clock, run_id)
    # Its next attempt may work in a new thread, with the same keys.
    again = await threads.for_subject("owner", "helper", "okapiquux")
    await stored.append(again, [said("now", key="a")], run_id=run_id, attempt=1)
    assert texts(await stored.read(again)) == ["now"]


async def test_a_message_that_ran_in_a_deleted_thread_goes_after_its_end(
    database: Database, clock: ManualClock, threads: Threads, thread: Thread
) -> None:
    running = await send(database, thread, "running")
    await begin(database, thread.id, run_id=running)
    await step(database, clock, running)
    kept = await send(database, await threads.main("owner", "helper"), "done")
    await threads.delete(thread, force=True)
    assert await prune(database, {}, 0) == 0
    assert await count(database, "inputs") == 2
    await database.transact(lambda connection: connection.execute(inputs.update().values(state="dead")))
    assert await prune(database, {}, 0) == 0
    assert [row.id for row in await rows(database, inputs)] == [kept]
    assert await rows(database, runs) == await rows(database, steps) == []


async def test_a_thread_with_very_many_messages_of_a_person_is_deleted_in_small_transactions(
    database: Database, threads: Threads, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "CHUNK", 2)
    for _ in range(5):
        await send(database, thread, "done")
    left: list[int] = []
    whole = deletion.erase_some

    def note(connection: Connection, *, ids: Sequence[str]) -> bool:
        more = whole(connection, ids=ids)
        left.append(int(connection.execute(text("SELECT count(*) FROM inputs")).scalar_one()))
        return more

    monkeypatch.setattr(deletion, "erase_some", note)
    await threads.delete(thread)
    assert left == [3, 1, 0]
    assert await count(database, "threads") == 0


async def test_a_thread_that_gets_a_message_while_the_retention_looks_for_old_ones_stays(
    database: Database, clock: ManualClock, threads: Threads
) -> None:
    busy, old = await threads.conversation("owner", "helper"), await threads.conversation("owner", "helper")
    clock.advance(91 * DAY)
    sent = False

    def send_meanwhile(connection: Connection, cursor: object, statement: str, *more: object) -> None:
        nonlocal sent
        if not sent and statement.lstrip().startswith("SELECT threads.id"):
            sent = True
            row = ("turn", "owner", busy.id, "message", 1, True)
            columns = ("turn_id", "user_id", "thread_id", "kind", "arrived_at", "active")
            bulk.insert(connection, thread_turns, columns, [row])

    event.listen(Engine, "after_cursor_execute", send_meanwhile)
    try:
        assert await prune(database, {"helper": 90 * DAY}, milliseconds(clock)) == 1
    finally:
        event.remove(Engine, "after_cursor_execute", send_meanwhile)
    assert [row.id for row in await rows(database, table)] == [busy.id] != [old.id]


async def test_an_interrupted_deletion_is_completed_by_the_retention(
    database: Database, threads: Threads, stored: Messages, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "CHUNK", 10)
    await stored.append(thread, [said(str(number)) for number in range(95)])
    calls = 0
    whole = deletion.erase_some

    def cut_off(connection: Connection, *, ids: Sequence[str]) -> bool:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise Unavailable("the disk is away")
        return whole(connection, ids=ids)

    monkeypatch.setattr(deletion, "erase_some", cut_off)
    with pytest.raises(Unavailable):
        await threads.delete(thread)
    assert await count(database, "messages") == 65
    with pytest.raises(NotFound):
        await threads.get(thread.id)
    assert (await threads.for_subject("owner", "helper", "okapiquux")).length == 0
    assert await prune(database, {}, 0) == 0
    assert await count(database, "messages") == 0
    assert await count(database, "threads") == 1


async def test_a_thread_is_kept_by_the_retention_while_its_quotes_are_deleted(
    database: Database, threads: Threads, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = await threads.conversation("owner", "helper")
    await deletion.mark(database, select(table.c.id).where(table.c.id == thread.id))

    async def mark_meanwhile(*_: object) -> None:
        await deletion.mark(database, select(table.c.id).where(table.c.id == late.id))

    monkeypatch.setattr(quotes, "forget", mark_meanwhile)
    for left in ([late.id], []):
        assert await prune(database, {}, 0) == 0
        assert [row.id for row in await rows(database, table)] == left


async def test_the_thread_of_a_delivery_that_is_being_deleted_begins_anew(
    database: Database, threads: Threads, stored: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = await threads.for_delivery("owner", "helper", "delivery-1")
    await stored.append(thread, [said("old")])
    await deletion.mark(database, select(table.c.id))
    forgotten: list[Deletion] = []

    async def forget(_database: Database, _user_id: str, gone: Deletion) -> None:
        assert await count(database, "messages") == 1
        forgotten.append(gone)

    monkeypatch.setattr(quotes, "forget", forget)
    again = await threads.for_delivery("owner", "helper", "delivery-1")
    assert (again.id, again.length) == (thread.id, 0)
    assert forgotten == [Deletion(frozenset({thread.id}))], "what others quote of it goes first"
    await stored.append(again, [said("new")])
    assert texts(await stored.read(again)) == ["new"]


@LONG
async def test_deletions_and_appends_at_once_leave_nothing_behind(database: Database, stored: Messages) -> None:
    threads = Threads(database, SYSTEM)
    made = [await threads.conversation("owner", "helper") for _ in range(20)]

    async def append(thread: Thread) -> None:
        run_id = await begin(database, thread.id)
        with suppress(ThreadGone):
            while True:
                await stored.append(thread, [said("x")], run_id=run_id, attempt=1)

    async def delete(thread: Thread) -> None:
        while not await stored.count(thread):
            await asyncio.sleep(0)
        await threads.delete(thread, force=True)

    await asyncio.gather(*(act(thread) for thread in made for act in (append, delete)))
    assert await count(database, "messages") == 0
    assert await count(database, "threads") == 0


async def test_threads_that_were_not_used_for_long_are_deleted_by_the_retention_of_their_agent(
    database: Database, clock: ManualClock, threads: Threads, stored: Messages
) -> None:
    old = {
        name: await threads.conversation("owner", agent, name)
        for name, agent in (("old", "helper"), ("used", "helper"), ("busy", "helper"), ("other", "other"))
    }
    old["waited for"] = await threads.main("ada", "helper")
    await send(database, old["waited for"], "queued")
    await enter(database, old["busy"], "turn-1")
    clock.advance(91 * DAY)
    await stored.append(old["used"], [said("x")])
    new = await threads.main("owner", "helper")
    assert await prune(database, {"helper": 90 * DAY}, milliseconds(clock)) == 1
    left = {row.id for row in await rows(database, table)}
    assert left == {new.id, *(old[name].id for name in ("used", "busy", "other", "waited for"))}


async def test_only_the_wanted_kinds_are_deleted_by_age(database: Database, threads: Threads) -> None:
    await many_threads(database, 1200)
    await many_threads(database, 10, kind="conversation")
    assert await prune(database, {"helper": 1}, 10**9, kinds=["delivery"]) == 1200
    assert {row.kind for row in await rows(database, table)} == {"conversation"}


async def test_the_threads_of_a_removed_user_go_and_nobody_elses(
    database: Database, clock: ManualClock, threads: Threads, stored: Messages
) -> None:
    made = [
        await make
        for user in ("ada", "bob")
        for make in (threads.main(user, "helper"), threads.for_subject(user, "helper", "7"))
    ]
    for each in made:
        await stored.append(each, [said("a")])
        await Summaries(database, clock).append(each, summary(0))
    assert await deletion.delete_of_user(database, "ada") == 2
    assert await deletion.delete_of_user(database, "ada") == 0
    for part in (messages, summaries, table):
        assert {row.user_id for row in await rows(database, part)} == {"bob"}


async def test_a_running_turn_of_a_removed_user_stays_until_it_ends(
    database: Database, clock: ManualClock, thread: Thread
) -> None:
    running = await send(database, thread, "running")
    run_id = await begin(database, thread.id, run_id=running)
    await send(database, thread, "waiting")
    await step(database, clock, run_id)
    counts, left = await belongings.delete_rows(database, "owner")
    assert left
    assert (counts["inputs"], counts["threads"]) == (1, 1)
    assert {each.name: len(await rows(database, each)) for each in (inputs, runs, steps)} == dict.fromkeys(
        ("inputs", "runs", "steps"), 1
    )
    async with database.write() as connection:
        await connection.execute(text("UPDATE inputs SET state = 'done'"))
    counts, left = await belongings.delete_rows(database, "owner")
    assert (counts, left) == ({"inputs": 1, "runs": 1, "steps": 1}, False)
