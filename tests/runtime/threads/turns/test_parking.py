"""A parked turn waits for a decision or a time; who decides wakes it, and others may have its thread meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import Connection, event, select, update

from runtime.clock import milliseconds
from runtime.database.connection import Database
from runtime.database.schema import OWNER, inputs, runs, thread_turns
from runtime.errors import Parked
from runtime.threads.inputs import ClaimedInput, Inputs
from runtime.threads.run_log import RunLog
from runtime.threads.turns import parking
from runtime.threads.turns.thread_order import ThreadOrder
from runtime.threads.turns.turn import NEVER, QUEUED, Outcome
from runtime.webhooks.deliveries.retention import Retention
from runtime.webhooks.deliveries.storage_usage import StorageUsage
from tests.clocks import ManualClock
from tests.runtime.threads.turns.sending import AGENT, dispatching, send, settled, states, thread_id
from tests.runtime.webhooks.candidates import rows


class Asking:
    """An agent that waits for an approval in its first attempts at `waits`. `until`: Unix milliseconds."""

    def __init__(
        self,
        database: Database,
        clock: ManualClock,
        *waits: str,
        frees_thread: bool = True,
        until: int | None = None,
    ) -> None:
        self.order: list[str] = []
        self.waits = list(waits)
        self.frees_thread = frees_thread
        self.until = until
        self._threads = ThreadOrder(database, clock)

    async def __call__(self, turn: ClaimedInput, log: RunLog) -> str:
        await self._threads.enter(turn, thread_id("0"))
        self.order.append(turn.text)
        if turn.text in self.waits:
            self.waits.remove(turn.text)
            raise Parked("it waits", state="awaiting", until=self.until, frees_thread=self.frees_thread)
        return "answered"


async def wake(database: Database, clock: ManualClock, **given: Any) -> int:
    now = milliseconds(clock)
    return await database.transact(lambda connection: parking.wake(connection, "awaiting", now, **given))


async def run_states(database: Database) -> dict[str, str]:
    return {row.id: row.state for row in await rows(database, runs, "id", "state")}


async def is_parked(database: Database, run_id: str) -> None:
    """Wait until the run waits for an approval."""
    async with asyncio.timeout(60):
        while (await run_states(database))[run_id] != "awaiting":
            await asyncio.sleep(0.01)


async def test_later_messages_are_answered_while_one_waits_and_it_goes_on_when_woken(
    database: Database, clock: ManualClock
) -> None:
    agent = Asking(database, clock, "one")
    first, second = await send(database, clock, "one", "two")
    async with dispatching(database, clock, agent) as dispatcher:
        await is_parked(database, first)
        await settled(database, {first: "queued", second: "done"})
        assert await run_states(database) == {first: "awaiting", second: "done"}
        assert agent.order == ["one", "two"]
        assert await wake(database, clock, run_ids=[first]) == 1
        assert {row.error for row in await rows(database, runs, "id", "error")} == {None}, "it waits no more"
        dispatcher.wake()
        await settled(database, {first: "done", second: "done"})
    assert agent.order == ["one", "two", "one"]
    assert await rows(database, thread_turns, "turn_id") == []


async def test_a_turn_goes_on_by_itself_at_the_time_until_which_it_waits(
    database: Database, clock: ManualClock
) -> None:
    agent = Asking(database, clock, "one", until=milliseconds(clock) + 3_600_000)
    [first] = await send(database, clock, "one")
    async with dispatching(database, clock, agent):
        await is_parked(database, first)
        clock.advance(3_599)
        assert await Inputs(database, clock).claim(1) == []
        clock.advance(1)
        await settled(database, {first: "done"})
    assert agent.order == ["one", "one"]


async def test_a_turn_that_keeps_its_thread_lets_nobody_pass(database: Database, clock: ManualClock) -> None:
    agent = Asking(database, clock, "one", frees_thread=False)
    first, second = await send(database, clock, "one", "two")
    async with dispatching(database, clock, agent) as dispatcher:
        await is_parked(database, first)
        await settled(database, {first: "queued", second: "waiting"})
        assert await wake(database, clock, user_id=OWNER, agent=AGENT) == 1
        dispatcher.wake()
        await settled(database, {first: "done", second: "done"})
    assert agent.order == ["one", "one", "two"]


async def test_a_woken_turn_waits_while_another_has_the_thread(database: Database, clock: ManualClock) -> None:
    agent, begun, go = Asking(database, clock, "one"), asyncio.Event(), asyncio.Event()

    async def run(turn: ClaimedInput, log: RunLog) -> str:
        ended = await agent(turn, log)
        if turn.text == "two":
            begun.set()
            await go.wait()
        return ended

    first, second, third = await send(database, clock, "one", "two", "three")
    async with dispatching(database, clock, run) as dispatcher:
        await begun.wait()
        await wake(database, clock, run_ids=[first])
        dispatcher.wake()
        await settled(database, {first: "waiting", second: "running", third: "waiting"})
        go.set()
        await settled(database, dict.fromkeys((first, second, third), "done"))
    assert agent.order == ["one", "two", "one", "three"]


@pytest.mark.parametrize("others", [{"user_id": "another"}, {"agent": "another"}, {"run_ids": ["another"]}])
async def test_only_those_are_woken_who_were_meant(
    database: Database, clock: ManualClock, others: dict[str, Any]
) -> None:
    [first] = await send(database, clock, "one")
    async with dispatching(database, clock, Asking(database, clock, "one")):
        await is_parked(database, first)
    assert await wake(database, clock, **others) == 0
    assert [row.next_attempt_at for row in await rows(database, inputs, "next_attempt_at")] == [NEVER]
    assert await wake(database, clock) == 1
    assert await wake(database, clock) == 0


async def test_a_decision_during_the_attempt_that_asks_is_not_missed(database: Database, clock: ManualClock) -> None:
    queue = Inputs(database, clock)
    await send(database, clock, "one")
    [turn] = await queue.claim(1)
    assert await wake(database, clock, run_ids=[turn.run_id]) == 0
    parked = Outcome(QUEUED, "it waits", counts=False, run_state="awaiting", until=NEVER, frees_thread=True)
    await queue.finish(turn, parked)
    [row] = await rows(database, inputs, "next_attempt_at")
    assert row.next_attempt_at <= milliseconds(clock)
    [turn] = await queue.claim(1)
    await queue.finish(turn, parked)
    assert [row.next_attempt_at for row in await rows(database, inputs, "next_attempt_at")] == [NEVER]
    assert turn.tries == 1


async def test_a_parked_turn_can_be_cancelled_and_its_thread_is_known(database: Database, clock: ManualClock) -> None:
    told: list[Any] = []
    queue = Inputs(database, clock, on_ended=lambda connection, ended: told.extend(ended))
    await send(database, clock, "one")
    [turn] = await queue.claim(1)
    await ThreadOrder(database, clock).enter(turn, thread_id("0"))
    await queue.finish(turn, Outcome(QUEUED, counts=False, run_state="awaiting", until=NEVER, frees_thread=True))
    assert await queue.cancel(turn.id, OWNER) == "cancelled"
    assert [(each.run_id, each.thread_id) for each in told] == [(turn.run_id, thread_id("0"))]
    assert await states(database) == {turn.id: "cancelled"}


async def test_retention_does_not_try_a_parked_turn_early(database: Database, clock: ManualClock) -> None:
    [first] = await send(database, clock, "one")
    async with dispatching(database, clock, Asking(database, clock, "one")):
        await is_parked(database, first)
    retention = Retention(database, clock, StorageUsage(1 << 30), keep_seconds=86_400)
    await retention.open()
    await retention.prune()
    async with database.read() as connection:
        assert (await connection.execute(select(inputs.c.next_attempt_at))).scalar() == NEVER


async def test_turns_that_are_woken_together_are_claimed_in_the_order_of_their_arrival(
    database: Database, clock: ManualClock
) -> None:
    queue = Inputs(database, clock)
    sent = await send(database, clock, "one", "two", "three", "four", "five")
    for _ in sent:
        [turn] = await queue.claim(1)
        await ThreadOrder(database, clock).enter(turn, thread_id("0"))
        await queue.finish(turn, Outcome(QUEUED, counts=False, run_state="awaiting", until=NEVER, frees_thread=True))
    # The rows of PostgreSQL move when they are written.
    await database.transact(
        lambda connection: [
            connection.execute(update(inputs).where(inputs.c.id == each).values(last_error="x")) for each in sent[::-1]
        ]
    )
    assert await wake(database, clock) == len(sent)
    assert [turn.id for _ in sent for turn in await queue.claim(1)] == sent


async def test_waking_reads_neither_turns_that_have_ended_nor_runs_that_do_not_wait(
    database: Database, clock: ManualClock
) -> None:
    """Checks the query plans of SQLite; PostgreSQL considers the size of the tables first, and here they are empty."""
    if database.kind != "sqlite":
        return
    plans: list[str] = []

    def explained(connection: Connection) -> None:
        def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(row[3] for row in cursor.fetchall())

        event.listen(connection, "before_cursor_execute", explain)
        try:
            parking.wake(connection, "awaiting", 0, run_ids=["one"])
            parking.wake(connection, "awaiting", 0, user_id=OWNER, agent=AGENT)
            parking.wake(connection, "budget_exceeded", 0)
        finally:
            event.remove(connection, "before_cursor_execute", explain)

    await database.transact(explained)
    assert plans
    scans = [step for step in plans if step.startswith("SCAN") and "given" not in step]
    assert [step for step in scans if "INDEX ix_" not in step] == []
