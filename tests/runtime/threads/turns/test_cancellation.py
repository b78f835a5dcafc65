"""A person can cancel a turn in any state, on any daemon, and a delivery so cancelled can be sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from sqlalchemy import Connection, update

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.schema import OWNER, deliveries, runs, thread_turns
from runtime.errors import Conflict, NotFound, Retry
from runtime.threads.inputs import ClaimedInput, Inputs
from runtime.threads.run_log import RunLog
from runtime.threads.turns.ending import EndedRun
from runtime.threads.turns.named_run import named_run
from runtime.threads.turns.turn import Outcome
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.deliveries.redelivery import redeliver
from runtime.webhooks.receiving.admission import Admission
from tests.clocks import ManualClock, until
from tests.runtime.threads.turns.sending import (
    Entering,
    dispatching,
    open_thread,
    send,
    settled,
    states,
    thread_id,
)
from tests.runtime.webhooks.candidates import candidate, rows


async def run_of(database: Database, run_id: str) -> tuple[str, str | None, bool]:
    [row] = [each for each in await rows(database, runs) if each.id == run_id]
    return row.state, row.ended, bool(row.cancel)


async def test_a_running_turn_is_stopped_at_once_and_the_next_one_runs(database: Database, clock: ManualClock) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def run(turn: ClaimedInput, log: RunLog) -> str:
        if turn.text == "two":
            return "answered"
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "answered"

    first, second = await send(database, clock, "one", "two")
    async with dispatching(database, clock, run) as dispatcher:
        await begun.wait()
        assert await dispatcher.cancel(first, OWNER) == "running"
        await stopped.wait()
        await settled(database, {first: "cancelled", second: "done"})
        assert await dispatcher.cancel(first, OWNER) == "cancelled"
    assert await run_of(database, first) == ("cancelled", "cancelled", False)
    assert await run_of(database, second) == ("done", "answered", False)


async def test_a_turn_that_waits_is_cancelled_at_once(database: Database, clock: ManualClock) -> None:
    ended: list[EndedRun] = []

    def note(connection: Connection, runs: Sequence[EndedRun]) -> None:
        ended.extend(runs)

    queue = Inputs(database, clock, on_ended=note)
    first, second, third = await send(database, clock, "one", "two", "three")
    assert await queue.cancel(second, OWNER) == "cancelled"
    assert await queue.cancel_run(first, OWNER) == "cancelled"
    assert await states(database) == {first: "cancelled", second: "cancelled", third: "queued"}
    assert [row.turn_id for row in await rows(database, thread_turns)] == [third]
    assert [(each.run_id, each.ended, each.thread_id) for each in ended] == [
        (second, "cancelled", thread_id("0")),
        (first, "cancelled", thread_id("0")),
    ]
    assert await run_of(database, second) == ("cancelled", "cancelled", False)
    assert (await named_run(database, second, OWNER)).run.error == "a person cancelled it"


async def test_a_turn_that_waits_for_its_next_try_is_cancelled_at_once(database: Database, clock: ManualClock) -> None:
    agent = Entering(database, clock, thread_id("0"), Retry("busy"))
    first, second = await send(database, clock, "one", "two")
    async with dispatching(database, clock, agent) as dispatcher:
        await until(lambda: agent.order == [first])
        await settled(database, {first: "queued", second: "waiting"})
        assert await dispatcher.cancel(first, OWNER) == "cancelled"
        await settled(database, {first: "cancelled", second: "done"})


async def test_what_has_ended_or_is_anothers_is_not_cancelled(database: Database, clock: ManualClock) -> None:
    queue = Inputs(database, clock)
    [first] = await send(database, clock, "one")
    for wrong in ((first, "ada"), (thread_id("none"), OWNER)):
        with pytest.raises(NotFound):
            await queue.cancel(*wrong)
    [turn] = await queue.claim(1)
    await queue.finish(turn, Outcome("done", ended="answered"))
    with pytest.raises(Conflict, match="done already"):
        await queue.cancel(first, OWNER)
    async with dispatching(database, clock, Entering(database, clock, "")) as dispatcher:
        with pytest.raises(Conflict):
            await dispatcher.cancel(first, OWNER)
        with pytest.raises(NotFound):
            await dispatcher.cancel(thread_id("none"), OWNER)


async def test_the_run_of_another_user_is_not_told_from_one_that_does_not_exist(
    database: Database, clock: ManualClock
) -> None:
    delivery = (await Admission(database, clock).admit(candidate())).delivery_id
    async with dispatching(
        database, clock, Entering(database, clock, await open_thread(database, clock))
    ) as dispatcher:
        await settled(database, {delivery: "done"})
        [run] = await rows(database, runs)
        with pytest.raises(NotFound, match=f"^there is no run {run.id}$"):
            await dispatcher.cancel(run.id, "ada")


async def test_a_turn_whose_daemon_is_killed_before_it_stops_is_not_tried_again(
    database: Database, clock: ManualClock
) -> None:
    queue = Inputs(database, clock)
    first, second = await send(database, clock, "one", "two")
    [turn] = await queue.claim(1)
    assert await queue.cancel(first, OWNER) == "running"
    change = update(queue.table).where(queue.table.c.id == turn.id).values(lease_until=1)
    await database.transact(lambda connection: connection.execute(change))
    agent = Entering(database, clock, thread_id("0"))
    async with dispatching(database, clock, agent):
        await settled(database, {first: "cancelled", second: "done"})
    assert agent.order == [second]
    assert await run_of(database, first) == ("cancelled", "cancelled", False)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome("queued", "busy", wait=2), "cancelled"),
        (Outcome("waiting", "busy", counts=False), "cancelled"),
        (Outcome("agent_gone", "gone"), "cancelled"),
        (Outcome("done", ended="answered"), "done"),
        (Outcome("dead", "no use"), "dead"),
    ],
)
async def test_an_attempt_that_ends_by_itself_is_not_tried_again(
    database: Database, clock: ManualClock, outcome: Outcome, state: str
) -> None:
    queue = Inputs(database, clock)
    [first] = await send(database, clock, "one")
    [turn] = await queue.claim(1)
    await queue.cancel(first, OWNER)
    await queue.finish(turn, outcome)
    await queue.finish(turn, outcome)
    assert await states(database) == {first: state}
    assert not (await run_of(database, first))[2]


async def test_a_cancelled_delivery_can_be_sent_again_and_goes_on(database: Database, clock: ManualClock) -> None:
    began: list[ClaimedDelivery] = []

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        began.append(turn)
        await log.step("tool", {}, act, key="a")
        if len(began) == 1:
            await asyncio.Event().wait()

    acts = 0

    async def act() -> int:
        nonlocal acts
        acts += 1
        return acts

    delivery = (await Admission(database, clock).admit(candidate("1"))).delivery_id
    async with dispatching(database, clock, run) as dispatcher:
        await until(lambda: bool(began))
        await until(lambda: acts == 1)
        assert await dispatcher.cancel(began[0].run_id, OWNER) == "running"
        await settled(database, {delivery: "cancelled"})
        # Its sender does not start it again, a person does.
        assert not (await Admission(database, clock).admit(candidate("1"))).queued_again
        await redeliver(database, clock, delivery)
        dispatcher.wake()
        await settled(database, {delivery: "done"})
    assert [turn.run_id for turn in began] == [began[0].run_id] * 2
    assert acts == 1
    assert await run_of(database, began[0].run_id) == ("done", None, False)


async def test_an_earlier_run_of_a_delivery_has_ended(database: Database, clock: ManualClock) -> None:
    inbox = Inbox(database, clock)
    delivery = (await Admission(database, clock).admit(candidate())).delivery_id
    [turn] = await inbox.claim(1)
    await inbox.finish(turn, Outcome("done"))
    await redeliver(database, clock, delivery, fresh=True)
    with pytest.raises(Conflict, match="has ended"):
        await inbox.cancel_run(turn.run_id, OWNER)
    assert await inbox.cancel(delivery, OWNER) == "cancelled"


async def test_a_run_on_another_daemon_is_cancelled(
    postgres_url: str, master_key: MasterKey, clock: ManualClock
) -> None:
    one, other = await Database.open(postgres_url, master_key), await Database.open(postgres_url, master_key)
    began: list[str] = []

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        began.append(turn.run_id)
        await asyncio.Event().wait()

    async def refuse(turn: ClaimedDelivery, log: RunLog) -> None:
        raise AssertionError

    delivery = (await Admission(one, clock).admit(candidate())).delivery_id
    async with dispatching(one, clock, run):
        await until(lambda: bool(began))
        async with dispatching(other, clock, refuse) as elsewhere:
            assert await elsewhere.cancel(began[0], OWNER) == "running"
            async with asyncio.timeout(60):
                while (await states(one))[delivery] == "running":
                    clock.advance(1)
                    await asyncio.sleep(0.01)
    [row] = await rows(one, deliveries)
    assert (row.state, row.last_error) == ("cancelled", "a person cancelled it")
    await one.close()
    await other.close()
