"""A run that gets further may be interrupted any number of times; one that does not is given up after five kills."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import update

from runtime.database.connection import Database
from runtime.database.schema import inputs
from runtime.threads.inputs import ClaimedInput, Inputs
from runtime.threads.run_log import RunLog
from runtime.threads.turns.backoff import TRIES
from runtime.threads.turns.concurrency import ConcurrencyLimits
from runtime.threads.turns.turn import Outcome
from tests.clocks import ManualClock
from tests.runtime.threads.turns.sending import AGENT, send
from tests.runtime.webhooks.candidates import rows


@pytest.fixture
async def first(database: Database, clock: ManualClock) -> ClaimedInput:
    """A message that runs."""
    await send(database, clock, "hello")
    [turn] = await Inputs(database, clock).claim(1)
    return turn


async def killed(database: Database, clock: ManualClock, *, limit: int | None = None) -> ClaimedInput | None:
    """Kill the daemon; return what the next one claims. `limit`: on the messages of an agent that run together."""
    expired = update(inputs).where(inputs.c.state == "running").values(lease_until=1)
    await database.transact(lambda connection: connection.execute(expired))
    limits = ConcurrencyLimits({} if limit is None else {AGENT: limit})
    queue = Inputs(database, clock, limits=lambda: limits)
    await queue.recover()
    found = await queue.claim_suspect() if queue.suspects else next(iter(await queue.claim(1)), None)
    assert found is None or found.run_id == found.id
    return found


async def record(database: Database, clock: ManualClock, turn: ClaimedInput, key: str) -> None:
    """Record a step with its result."""

    async def act() -> str:
        return key

    log = RunLog(database, clock, turn.run_id, turn.attempt)
    await log.step("tool", {}, act, key=key)
    await log.settle()


async def begin(database: Database, clock: ManualClock, turn: ClaimedInput, key: str) -> None:
    """Begin a step that a kill interrupts."""
    begun = asyncio.Event()

    async def act() -> None:
        begun.set()
        await asyncio.Event().wait()

    log = RunLog(database, clock, turn.run_id, turn.attempt)
    step = asyncio.create_task(log.step("tool", {}, act, key=key, repeatable=True))
    await begun.wait()
    step.cancel()
    await asyncio.wait({step})


async def test_a_run_that_records_a_result_before_each_kill_is_never_given_up(
    database: Database, clock: ManualClock, first: ClaimedInput
) -> None:
    turn: ClaimedInput | None = first
    for number in range(2 * TRIES + 1):
        assert turn is not None
        await record(database, clock, turn, str(number))
        turn = await killed(database, clock)
    assert turn is not None
    assert (turn.attempt, turn.tries) == (2 * TRIES + 2, 1)


async def test_a_run_that_is_killed_in_the_same_step_each_time_is_given_up(
    database: Database, clock: ManualClock, first: ClaimedInput
) -> None:
    await record(database, clock, first, "earlier")
    turn, kills = await killed(database, clock), 0
    while turn is not None:
        await begin(database, clock, turn, "kills")
        turn, kills = await killed(database, clock), kills + 1
    assert kills == TRIES
    [row] = await rows(database, inputs)
    assert (row.state, row.attempt) == ("dead", 1 + TRIES)
    assert row.last_error == "the daemon stopped during the last of 5 tries, which recorded nothing new"


async def test_the_tries_begin_anew_when_a_run_got_further(
    database: Database, clock: ManualClock, first: ClaimedInput
) -> None:
    await record(database, clock, first, "a")
    turn = await killed(database, clock)
    for _ in range(TRIES - 1):
        assert turn is not None
        turn = await killed(database, clock)
    assert turn is not None
    assert turn.tries == TRIES
    await record(database, clock, turn, "b")
    turn = await killed(database, clock)
    assert turn is not None
    assert turn.tries == 1
    # A failure counts as before.
    await Inputs(database, clock).finish(turn, Outcome("queued", "busy"))
    [turn] = await Inputs(database, clock).claim(1)
    assert turn.tries == 2


async def test_a_step_that_an_earlier_attempt_recorded_is_nothing_new(
    database: Database, clock: ManualClock, first: ClaimedInput
) -> None:
    await record(database, clock, first, "a")
    turn = await killed(database, clock)
    assert turn is not None
    await record(database, clock, turn, "a")
    turn = await killed(database, clock)
    assert turn is not None
    assert turn.tries == 2


@pytest.mark.parametrize("further", [True, False])
async def test_the_same_holds_for_a_run_that_waits_in_a_concurrency_queue(
    database: Database, clock: ManualClock, first: ClaimedInput, further: bool
) -> None:
    await record(database, clock, first, "a")
    turn = await killed(database, clock, limit=1)
    assert turn is not None
    await (record if further else begin)(database, clock, turn, "b")
    turn = await killed(database, clock, limit=1)
    assert turn is not None
    assert turn.tries == (1 if further else 2)


async def test_a_run_that_kills_the_daemon_at_each_step_does_not_keep_others_waiting(
    database: Database, clock: ManualClock, first: ClaimedInput
) -> None:
    if database.kind == "postgresql":
        pytest.skip("turns that were interrupted do not run alone there")
    await send(database, clock, "another", thread="1")
    [other] = await Inputs(database, clock).claim(1)
    await record(database, clock, first, "a")
    again = await killed(database, clock)
    assert again is not None
    assert again.id == first.id
    await record(database, clock, again, "b")
    after = await killed(database, clock)
    assert after is not None
    assert after.id == other.id
