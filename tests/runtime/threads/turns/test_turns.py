"""Every kind of turn is claimed, retried and recovered alike, here messages, which have no delivery."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select, update

from runtime.agents.dispatcher import Dispatcher, Run
from runtime.agents.running_turn import Source
from runtime.clock import Clock
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.schema import deliveries, inputs, runs
from runtime.errors import GiveUp, Retry
from runtime.threads.inputs import ClaimedInput, Inputs
from runtime.threads.run_log import RunLog
from runtime.threads.step import Superseded
from runtime.threads.turns.backoff import TRIES
from runtime.threads.turns.turn import AgentGone, ClaimedTurn, Outcome
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.receiving.admission import Admission
from tests.clocks import ManualClock, until
from tests.lanes import LONG
from tests.runtime.threads.turns.sending import send, thread_id
from tests.runtime.webhooks.candidates import candidate, rows

RETRY_SECONDS = 3600


@pytest.fixture
async def queue(database: Database, clock: ManualClock) -> Inputs:
    return Inputs(database, clock)


@asynccontextmanager
async def dispatching(
    database: Database, clock: Clock, run: Run, *sources: Source, workers: int = 16
) -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(database, clock, sources, run, workers=workers)
    task = asyncio.create_task(dispatcher.run())
    yield dispatcher
    await dispatcher.stop(0)
    await task


async def settled(database: Database, *expected: str) -> None:
    """Wait until the messages, oldest first, are in the expected states."""
    async with asyncio.timeout(60):
        while [row.state for row in await rows(database, inputs, "state", "id")] != list(expected):
            await asyncio.sleep(0.005)


async def test_a_run_without_a_delivery_has_its_trigger_and_its_thread(
    database: Database, clock: ManualClock, queue: Inputs
) -> None:
    await send(database, clock, "hello", thread="7")
    [turn] = await queue.claim(10)
    assert (turn.text, turn.attempt, turn.tries, turn.delivery_id) == ("hello", 1, 1, None)
    await queue.finish(turn, Outcome("done"))
    [run] = await rows(database, runs)
    assert (run.trigger, run.delivery_id, run.agent, run.state) == ("message", None, "helper", "done")
    assert (run.id, run.thread_id) == (turn.id, turn.thread_id) == (turn.run_id, thread_id("7"))
    assert await rows(database, deliveries) == []


async def test_the_run_of_a_delivery_has_its_trigger(database: Database, clock: ManualClock) -> None:
    decision = await Admission(database, clock).admit(candidate())
    await Inbox(database, clock).claim(1)
    [run] = await rows(database, runs)
    assert (run.trigger, run.delivery_id, run.thread_id) == ("delivery", decision.delivery_id, None)


async def test_a_failed_message_is_tried_five_times_and_is_then_a_dead_letter(
    database: Database, clock: ManualClock, queue: Inputs
) -> None:
    tries: list[tuple[int, int, str]] = []

    async def run(turn: ClaimedInput, log: RunLog) -> None:
        tries.append((turn.tries, turn.attempt, turn.run_id))
        raise Retry("busy")

    await send(database, clock, "hello")
    async with dispatching(database, clock, run, queue):
        for number in range(1, 5):
            await until(lambda wanted=number: len(tries) == wanted)  # type: ignore[misc]
            await settled(database, "queued")
            clock.advance(RETRY_SECONDS)
        await settled(database, "dead")
    assert [(each[0], each[1]) for each in tries] == [(number, number) for number in range(1, 6)]
    assert len({run_id for *_, run_id in tries}) == 1
    [row] = await rows(database, inputs)
    assert row.last_error == "busy"


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (GiveUp("no use"), "dead", "no use"),
        (AgentGone("helper"), "agent_gone", "the agent helper is not declared, or not enabled"),
    ],
)
async def test_a_message_can_be_given_up_on_or_lose_its_agent(
    database: Database, clock: ManualClock, queue: Inputs, error: Exception, state: str, reason: str
) -> None:
    async def run(turn: ClaimedInput, log: RunLog) -> None:
        raise error

    await send(database, clock, "hello")
    async with dispatching(database, clock, run, queue):
        await settled(database, state)
    [row] = await rows(database, inputs)
    assert row.last_error == reason


async def test_a_message_that_can_never_run_is_a_dead_letter_and_the_next_one_runs(
    database: Database, clock: ManualClock, queue: Inputs
) -> None:
    [first, second] = await send(database, clock, "one", "two")
    copied = select(inputs.c.content).where(inputs.c.id == second).scalar_subquery()
    change = update(inputs).where(inputs.c.id == first).values(content=copied)
    await database.transact(lambda connection: connection.execute(change))
    assert await queue.claim(10) == []
    assert [turn.text for turn in await queue.claim(10)] == ["two"]
    [dead, running] = await rows(database, inputs, "state", "last_error", "id")
    assert (dead.state, running.state, running.last_error) == ("dead", "running", None)
    assert "moved from another row" in dead.last_error


async def test_one_message_of_a_thread_runs_at_a_time_in_the_order_of_arrival(
    database: Database, clock: ManualClock, queue: Inputs
) -> None:
    now: Counter[str | None] = Counter()
    most: Counter[str | None] = Counter()
    order: list[str] = []

    async def run(turn: ClaimedInput, log: RunLog) -> None:
        now[turn.thread_id] += 1
        most[turn.thread_id] = max(most[turn.thread_id], now[turn.thread_id])
        order.append(turn.text)
        await asyncio.sleep(0.003)
        now[turn.thread_id] -= 1

    texts = [f"{thread}{number}" for thread in "abc" for number in range(6)]
    for thread in "abc":
        await send(database, clock, *(text for text in texts if text[0] == thread), thread=thread)
    async with dispatching(database, clock, run, queue):
        await settled(database, *["done"] * 18)
    assert set(most.values()) == {1}
    assert [[text for text in order if text[0] == thread] for thread in "abc"] == [
        [text for text in texts if text[0] == thread] for thread in "abc"
    ]


async def test_a_late_write_of_an_old_attempt_is_rejected(
    database: Database, clock: ManualClock, queue: Inputs
) -> None:
    await send(database, clock, "hello")
    [old] = await queue.claim(1)
    await database.transact(lambda connection: connection.execute(update(inputs).values(state="queued")))
    [new] = await queue.claim(1)
    with pytest.raises(Superseded):
        await queue.finish(old, Outcome("done"))
    await queue.finish(new, Outcome("done"))


async def test_an_expired_lease_of_a_message_is_claimed_by_another_daemon(
    postgres_url: str, master_key: MasterKey, clock: ManualClock
) -> None:
    database = await Database.open(postgres_url, master_key)
    mine, theirs = Inputs(database, clock), Inputs(database, clock)
    await send(database, clock, "hello")
    [turn] = await mine.claim(1)
    assert await theirs.claim(1) == []
    assert await mine.renew([turn]) == {(turn.id, turn.attempt)}
    await database.transact(lambda connection: connection.execute(update(inputs).values(lease_until=1)))
    [taken] = await theirs.claim(1)
    assert (taken.id, taken.attempt, taken.run_id) == (turn.id, 2, turn.run_id)
    assert await mine.renew([turn]) == set()
    with pytest.raises(Superseded):
        await mine.finish(turn, Outcome("done"))
    await database.close()


@pytest.mark.parametrize("workers", [1, 3, 4])
async def test_every_source_has_its_share_of_the_places(
    database: Database, clock: ManualClock, queue: Inputs, workers: int
) -> None:
    order: list[str] = []

    async def run(turn: ClaimedTurn, log: RunLog) -> None:
        order.append(turn.trigger)
        await asyncio.sleep(0.002)

    await asyncio.gather(*(Admission(database, clock).admit(candidate()) for _ in range(24)))
    for number in range(4):
        await send(database, clock, "hello", thread=str(number))
    async with dispatching(database, clock, run, Inbox(database, clock), queue, workers=workers):
        await settled(database, *["done"] * 4)
        await until(lambda: len(order) == 28)
    # Regardless of how many deliveries waited before them.
    assert order[:12].count("message") == 4
    assert Counter(order) == {"delivery": 24, "message": 4}


async def test_a_share_that_one_source_leaves_is_for_the_other(
    database: Database, clock: ManualClock, queue: Inputs
) -> None:
    running = 0

    async def run(turn: ClaimedTurn, log: RunLog) -> None:
        nonlocal running
        running += 1
        await asyncio.Event().wait()

    await asyncio.gather(*(Admission(database, clock).admit(candidate()) for _ in range(9)))
    await send(database, clock, "hello")
    async with dispatching(database, clock, run, Inbox(database, clock), queue, workers=6):
        await until(lambda: running == 6)


async def worker(url: str, notes: Path, *more: str) -> asyncio.subprocess.Process:
    """Start a process that runs the messages of this database, see `message_worker`."""
    given = (sys.executable, "-m", "tests.runtime.threads.turns.message_worker", url, str(notes), *more)
    return await asyncio.create_subprocess_exec(*given)


@LONG
async def test_a_killed_process_leaves_its_message_to_the_next_one(
    database: Database, database_url: str, clock: ManualClock, tmp_path: Path, queue: Inputs
) -> None:
    notes = tmp_path / "notes"
    await send(database, clock, "hello")
    killed = await worker(database_url, notes, "block")
    async with asyncio.timeout(60):
        while not notes.exists() or "blocked" not in notes.read_text():
            await asyncio.sleep(0.02)
    killed.kill()
    await killed.wait()
    next_one = await worker(database_url, notes)
    async with asyncio.timeout(60):
        assert await next_one.wait() == 0
    assert notes.read_text().splitlines() == ["first hello", "blocked", "second hello"]
    [row] = await rows(database, inputs)
    assert (row.state, row.attempt) == ("done", 2)
    [run] = await rows(database, runs)
    assert (run.id, run.trigger, run.delivery_id, run.state) == (row.run_id, "message", None, "done")
    assert await rows(database, deliveries) == []


@LONG
async def test_a_message_that_kills_every_process_takes_no_other_along(
    tmp_path: Path, master_key: MasterKey, clock: ManualClock
) -> None:
    url, notes = f"sqlite:///{tmp_path}/db", tmp_path / "notes"
    database = await Database.open(url, master_key)
    for number, each in enumerate(("one", "kill", "two", "three")):
        await send(database, clock, each, thread=str(number))
    ends: list[int] = []
    async with asyncio.timeout(120):
        while not ends or ends[-1] != 0:
            ends.append(await (await worker(url, notes)).wait())
    # The first kill interrupts all of them and counts for none; the next one counts for the only one that ran.
    assert ends == [-signal.SIGKILL] * (1 + TRIES) + [0]
    found = await rows(database, inputs, "state", "tries", "id")
    assert [tuple(row)[:2] for row in found] == [("done", 1), ("dead", TRIES), ("done", 1), ("done", 1)]
    await database.close()
