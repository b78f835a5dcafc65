"""Turns of one thread run one after the other in the order of their arrival, whatever their kind and daemon."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import delete, text, update

from runtime.agents.dispatcher import Run
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.schema import OWNER, deliveries, inputs, runs, thread_turns
from runtime.errors import GiveUp, Retry
from runtime.models.model import ModelUnavailable
from runtime.threads.inputs import Inputs
from runtime.threads.removal import deletion
from runtime.threads.run_log import RunLog
from runtime.threads.step import Superseded
from runtime.threads.turns import thread_order
from runtime.threads.turns.thread_order import NoThread, ThreadOrder
from runtime.threads.turns.turn import AgentGone, ClaimedTurn, Outcome, ThreadBusy
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.deliveries.redelivery import redeliver
from runtime.webhooks.receiving.admission import Admission
from tests.clocks import ManualClock, until
from tests.lanes import repeated
from tests.runtime.threads.turns.sending import (
    AGENT,
    Entering,
    dispatching,
    open_thread,
    send,
    settled,
    states,
    thread_id,
)
from tests.runtime.webhooks.candidates import candidate, rows

WAITING = Outcome("waiting", counts=False)


async def admit(database: Database, clock: ManualClock, count: int) -> list[str]:
    """Return the ids of new deliveries, a millisecond apart."""
    admission, made = Admission(database, clock), []
    for _ in range(count):
        made.append((await admission.admit(candidate())).delivery_id)
        clock.advance(0.001)
    return made


async def test_a_message_waits_while_its_thread_is_busy(database: Database, clock: ManualClock) -> None:
    queue = Inputs(database, clock)
    first, second, third = await send(database, clock, "one", "two", "three")
    [turn] = await queue.claim(10)
    assert (turn.id, turn.text) == (first, "one")
    for next_one in (second, third):
        assert await queue.claim(10) == []
        assert await queue.finish(turn, Outcome("done"))
        [turn] = await queue.claim(10)
        assert turn.id == next_one
    assert not await queue.finish(turn, Outcome("done"))
    assert await rows(database, thread_turns) == []


async def test_messages_wait_in_the_order_in_which_they_were_sent_whatever_the_clocks_say(
    database: Database, clock: ManualClock
) -> None:
    ids = await send(database, clock, "one", "two")
    for words in ("three", "four"):
        clock.advance(-60)
        ids += await send(database, clock, words)
    queue, order = Inputs(database, clock), []
    clock.advance(120)
    for _ in ids:
        [turn] = await queue.claim(10)
        order.append(turn.id)
        await queue.finish(turn, Outcome("done"))
    assert order == ids


async def test_deliveries_and_messages_of_one_thread_take_turns(database: Database, clock: ManualClock) -> None:
    thread = await open_thread(database, clock)
    agent = Entering(database, clock, thread)
    expected = []
    for number in range(6):
        clock.advance(0.001)
        expected += await (send(database, clock, "hello") if number % 2 else admit(database, clock, 3))
    async with dispatching(database, clock, agent, workers=4):
        await settled(database, dict.fromkeys(expected, "done"))
    assert agent.most == 1
    assert sorted(agent.order) == sorted(expected)
    found = await rows(database, runs, "thread_id", "ended", "id")
    assert {(row.thread_id, row.ended) for row in found} == {(thread, "answered")}


async def test_messages_of_different_threads_run_beside_each_other(database: Database, clock: ManualClock) -> None:
    for name in "abc":
        await send(database, clock, "one", "two", thread=name)
    claimed = await Inputs(database, clock).claim(10)
    assert sorted(turn.thread_id for turn in claimed) == sorted(map(thread_id, "abc"))


@repeated("count", 40, 2000)
async def test_any_number_of_deliveries_waits_for_one_thread(
    database: Database, clock: ManualClock, count: int
) -> None:
    agent = Entering(database, clock, await open_thread(database, clock))
    ids = await admit(database, clock, count)
    async with dispatching(database, clock, agent):
        await until(lambda: len(agent.order) == count, patience=600)
        await settled(database, dict.fromkeys(ids, "done"))
    assert agent.most == 1
    # The first ones run at the same time until they know their thread; what waited is in order.
    assert agent.order[16:] == ids[16:]
    assert {row.tries for row in await rows(database, deliveries, "tries", "id")} == {1}


async def test_finding_the_next_turn_reads_no_others(database: Database) -> None:
    """Checks the query plan of SQLite; PostgreSQL considers the size of the table first, and here it is empty."""
    if database.kind != "sqlite":
        return
    async with database.read() as connection:
        given = {"thread_id": "t", "active": False}
        plan = (await connection.execute(text(f"EXPLAIN QUERY PLAN {thread_order._FIRST.text}"), given)).all()
    [step] = plan  # it sorts nothing
    assert "INDEX ix_thread_turns_thread (thread_id=? AND active=?)" in step[3]


@pytest.mark.parametrize("error", [Retry("busy"), ModelUnavailable("the model m does not answer")])
async def test_a_turn_keeps_its_thread_between_its_attempts(
    database: Database, clock: ManualClock, error: Exception
) -> None:
    agent = Entering(database, clock, thread_id("0"), error, error)
    first, second = await send(database, clock, "one", "two")
    async with dispatching(database, clock, agent):
        for tries in (1, 2):
            await until(lambda tries=tries: len(agent.order) == tries)  # type: ignore[misc]
            await settled(database, {first: "queued", second: "waiting"})
            clock.advance(3600)
        await settled(database, {first: "done", second: "done"})
    assert agent.order == [first, first, first, second]


@pytest.mark.parametrize(
    ("error", "state"), [(None, "done"), (GiveUp("no use"), "dead"), (AgentGone(AGENT), "agent_gone")]
)
async def test_the_next_turn_runs_however_the_one_before_ended(
    database: Database, clock: ManualClock, error: Exception | None, state: str
) -> None:
    agent = Entering(database, clock, thread_id("0"), *([error] if error else []))
    first, second = await send(database, clock, "one", "two")
    async with dispatching(database, clock, agent):
        await settled(database, {first: state, second: "done"})


async def test_a_turn_whose_thread_became_free_does_not_wait(database: Database, clock: ManualClock) -> None:
    thread, inbox, order = await open_thread(database, clock), Inbox(database, clock), ThreadOrder(database, clock)
    await admit(database, clock, 2)
    first, second = await inbox.claim(2)
    await order.enter(first, thread)
    await order.enter(first, thread)
    with pytest.raises(ThreadBusy):
        await order.enter(second, thread)
    assert {(row.turn_id, row.thread_id) for row in await rows(database, thread_turns)} == {
        (first.id, thread),
        (second.id, thread),
    }
    await inbox.finish(first, Outcome("done"))
    await inbox.finish(second, WAITING)
    assert await states(database) == {first.id: "done", second.id: "queued"}
    [again] = await inbox.claim(1)
    assert (again.id, again.tries) == (second.id, 1)
    await order.enter(again, thread)


async def test_a_dead_letter_that_is_sent_again_has_its_old_place(database: Database, clock: ManualClock) -> None:
    thread, inbox, order = await open_thread(database, clock), Inbox(database, clock), ThreadOrder(database, clock)
    ids = await admit(database, clock, 3)
    first, second, third = await inbox.claim(3)
    await order.enter(first, thread)
    await inbox.finish(first, Outcome("dead", "no use"))
    for turn in (second, third):
        try:
            await order.enter(turn, thread)
        except ThreadBusy:
            await inbox.finish(turn, WAITING)
    await redeliver(database, clock, first.id)
    [again] = await inbox.claim(1)
    with pytest.raises(ThreadBusy):
        await order.enter(again, thread)
    await inbox.finish(again, WAITING)
    await inbox.finish(second, Outcome("done"))
    assert await states(database) == {ids[0]: "queued", ids[1]: "done", ids[2]: "waiting"}


async def test_an_old_attempt_enters_no_thread(database: Database, clock: ManualClock) -> None:
    thread, inbox, order = await open_thread(database, clock), Inbox(database, clock), ThreadOrder(database, clock)
    await admit(database, clock, 1)
    [old] = await inbox.claim(1)
    await database.transact(lambda connection: connection.execute(update(deliveries).values(state="queued")))
    [new] = await inbox.claim(1)
    with pytest.raises(Superseded):
        await order.enter(old, thread)
    with pytest.raises(NoThread):
        await order.enter(new, thread_id("deleted"))
    await order.enter(new, thread)


async def test_a_turn_can_move_to_another_thread(database: Database, clock: ManualClock) -> None:
    one, two = await open_thread(database, clock, "1"), await open_thread(database, clock, "2")
    inbox, order = Inbox(database, clock), ThreadOrder(database, clock)
    await admit(database, clock, 2)
    first, second = await inbox.claim(2)
    await order.enter(first, one)
    with pytest.raises(ThreadBusy):
        await order.enter(second, one)
    await inbox.finish(second, WAITING)
    await order.enter(first, two)
    assert await states(database) == {first.id: "running", second.id: "queued"}


async def test_a_killed_daemon_leaves_the_thread_to_the_turn_that_had_it(
    database: Database, clock: ManualClock
) -> None:
    thread, order = await open_thread(database, clock), ThreadOrder(database, clock)
    ids = await admit(database, clock, 3)
    turns = await Inbox(database, clock).claim(3)
    await order.enter(turns[1], thread)
    for turn in (turns[0], turns[2]):
        with pytest.raises(ThreadBusy):
            await order.enter(turn, thread)
    # The daemon is killed; its leases expire.
    await database.transact(lambda connection: connection.execute(update(deliveries).values(lease_until=1)))
    agent = Entering(database, clock, thread)
    async with dispatching(database, clock, agent):
        await settled(database, dict.fromkeys(ids, "done"))
    assert agent.order == [ids[1], ids[0], ids[2]]


@pytest.mark.parametrize("damage", ["ended", "deleted", "entry lost", "never active"])
async def test_nothing_blocks_a_thread_for_ever(database: Database, clock: ManualClock, damage: str) -> None:
    first, second, third = await send(database, clock, "one", "two", "three")
    change = {
        "ended": update(inputs).where(inputs.c.id == first).values(state="done"),
        "deleted": delete(inputs).where(inputs.c.id == first),
        "entry lost": delete(thread_turns),
        "never active": update(thread_turns).values(active=False),
    }[damage]
    await database.transact(lambda connection: connection.execute(change))
    agent = Entering(database, clock, thread_id("0"))
    async with dispatching(database, clock, agent):
        expected = dict.fromkeys((first, second, third), "done")
        await settled(database, {key: value for key, value in expected.items() if (damage, key) != ("deleted", first)})
    assert agent.most == 1


async def test_who_enters_finds_that_the_turn_before_is_gone(database: Database, clock: ManualClock) -> None:
    [first] = await send(database, clock, "one")
    await database.transact(lambda connection: connection.execute(delete(inputs)))
    [second] = await send(database, clock, "two")
    assert await states(database) == {second: "queued"}
    assert [row.turn_id for row in await rows(database, thread_turns, "turn_id")] == [second] != [first]


async def test_what_waits_for_a_thread_that_is_deleted_goes_on(database: Database, clock: ManualClock) -> None:
    thread, inbox, order = await open_thread(database, clock), Inbox(database, clock), ThreadOrder(database, clock)
    await admit(database, clock, 2)
    first, second = await inbox.claim(2)
    await order.enter(first, thread)
    with pytest.raises(ThreadBusy):
        await order.enter(second, thread)
    await inbox.finish(second, WAITING)
    await deletion.delete(database, thread, force=True)
    assert await states(database) == {first.id: "running", second.id: "queued"}
    await inbox.finish(first, Outcome("done"))
    assert await rows(database, thread_turns) == []


async def test_two_daemons_run_the_turns_of_one_thread_in_turn(
    postgres_url: str, master_key: MasterKey, clock: ManualClock
) -> None:
    databases = [await Database.open(postgres_url, master_key) for _ in range(2)]
    thread = await open_thread(databases[0], clock)
    running: list[str] = []
    order: list[tuple[int, str]] = []

    def agent(daemon: int) -> Run:
        threads = ThreadOrder(databases[daemon], clock)

        async def run(turn: ClaimedTurn, log: RunLog) -> None:
            await threads.enter(turn, thread)
            running.append(turn.id)
            await asyncio.sleep(0.002)
            assert running == [turn.id]
            running.clear()
            order.append((daemon, turn.id))

        return run

    ids = await admit(databases[0], clock, 30)
    daemons = [dispatching(database, clock, agent(number), workers=4) for number, database in enumerate(databases)]
    async with daemons[0], daemons[1], asyncio.timeout(120):
        for number in range(20):
            inputs_here = Inputs(databases[number % 2], clock)
            ids.append(await inputs_here.send(OWNER, AGENT, thread, str(number), {"write"}))
        while len(order) < len(ids):
            clock.advance(0.1)
            await asyncio.sleep(0.01)
        await settled(databases[0], dict.fromkeys(ids, "done"))
    assert sorted(turn for _, turn in order) == sorted(ids)
    assert {daemon for daemon, _ in order} == {0, 1}
    messages = [turn for _, turn in order if turn in ids[30:]]
    assert messages == ids[30:]
    for database in databases:
        await database.close()
