"""Every accepted delivery reaches its agent at least once, is retried with a backoff, and runs once at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, update

from runtime.agents.dispatcher import ALONE_SECONDS, Dispatcher
from runtime.agents.outcome import AWAY_SECONDS
from runtime.clock import SYSTEM, Clock
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import deliveries, runs
from runtime.errors import GiveUp, Retry
from runtime.threads.run_log import RunLog
from runtime.threads.turns.backoff import TRIES, delay
from runtime.threads.turns.shares import SHARES
from runtime.threads.turns.turn import AgentGone, Outcome
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.deliveries.redelivery import redeliver
from runtime.webhooks.receiving.admission import Admission
from tests.clocks import ManualClock, until
from tests.lanes import LONG
from tests.runtime.webhooks.candidates import candidate, cut_off, rows

Run = Callable[[ClaimedDelivery, RunLog], Awaitable[None]]


@asynccontextmanager
async def dispatching(
    database: Database, clock: Clock, run: Run, *, workers: int = 16, lease: float = 30.0, grace: float = 0.0
) -> AsyncIterator[Dispatcher]:
    inbox = Inbox(database, clock, lease=lease)
    dispatcher = Dispatcher(database, clock, [inbox], run, workers=workers, poll=1.0 if clock is not SYSTEM else 0.02)
    task = asyncio.create_task(dispatcher.run())
    yield dispatcher
    await dispatcher.stop(grace)
    await task


class Agent:
    """An agent that does what `acts` say, try by try, and succeeds afterwards."""

    def __init__(self, *acts: Exception) -> None:
        self.acts = list(acts)
        self.turns: list[ClaimedDelivery] = []

    async def __call__(self, turn: ClaimedDelivery, log: RunLog) -> None:
        self.turns.append(turn)
        if self.acts:
            raise self.acts.pop(0)


async def states(database: Database) -> list[str]:
    return [row.state for row in await rows(database, deliveries, "state", "id")]


async def settled(database: Database, *expected: str) -> None:
    """Wait until the deliveries, oldest first, are in the expected states."""
    async with asyncio.timeout(60):
        while await states(database) != list(expected):
            await asyncio.sleep(0.005)


async def test_what_is_admitted_is_run_at_once(database: Database, clock: ManualClock) -> None:
    agent = Agent()
    async with dispatching(database, clock, agent) as dispatcher:
        admission = Admission(database, clock, on_admitted=dispatcher.wake)
        await asyncio.gather(*(admission.admit(candidate(str(number))) for number in range(50)))
        await settled(database, *["done"] * 50)
    assert sorted(turn.provider_delivery_id or "" for turn in agent.turns) == sorted(map(str, range(50)))


async def test_what_waited_before_the_start_is_run(database: Database, clock: ManualClock) -> None:
    await Admission(database, clock).admit(candidate())
    async with dispatching(database, clock, Agent()):
        await settled(database, "done")


@LONG
@pytest.mark.parametrize("error", [Retry("busy"), OSError("no network")])
async def test_a_failed_run_is_tried_five_times_and_is_then_a_dead_letter(
    database: Database, clock: ManualClock, error: Exception
) -> None:
    agent = Agent(*[error] * 9)
    await Admission(database, clock).admit(candidate())
    async with dispatching(database, clock, agent):
        for tries in range(1, 5):
            await until(lambda tries=tries: len(agent.turns) == tries)  # type: ignore[misc]
            await settled(database, "queued")
            clock.advance(3600)
        await settled(database, "dead")
    assert [(turn.tries, turn.attempt) for turn in agent.turns] == [(number, number) for number in range(1, 6)]
    assert len({turn.run_id for turn in agent.turns}) == 1
    [row] = await rows(database, deliveries)
    assert str(error) in row.last_error


async def test_a_database_that_is_away_uses_up_no_try(database: Database, clock: ManualClock) -> None:
    agent = Agent(*(Unavailable("gone for a moment") for _ in range(TRIES + 2)))
    async with dispatching(database, clock, agent) as dispatcher:
        await Admission(database, clock, on_admitted=dispatcher.wake).admit(candidate("1"))
        for tries in range(1, TRIES + 4):
            await until(lambda wanted=tries: len(agent.turns) == wanted)  # type: ignore[misc]
            await until(lambda: dispatcher.running == 0)
            clock.advance(AWAY_SECONDS)
        await settled(database, "done")
    assert {turn.tries for turn in agent.turns} == {1}


async def test_an_end_that_cannot_be_stored_is_a_failure_and_tried_again(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, finish, ends = Agent(), Inbox.finish, 0

    async def once_broken(inbox: Inbox, turn: ClaimedDelivery, outcome: Outcome) -> None:
        nonlocal ends
        ends += 1
        if ends == 1:
            raise ZeroDivisionError
        await finish(inbox, turn, outcome)

    monkeypatch.setattr(Inbox, "finish", once_broken)
    async with dispatching(database, clock, agent) as dispatcher:
        await Admission(database, clock, on_admitted=dispatcher.wake).admit(candidate("1"))
        await until(lambda: ends == 2 and dispatcher.running == 0)
        clock.advance(delay(1, spread=1))
        await settled(database, "done")
    assert [turn.tries for turn in agent.turns] == [1, 2]


async def test_what_nobody_foresaw_is_told_in_one_line(database: Database, clock: ManualClock) -> None:
    agent = Agent(ValueError("what went wrong\n[SQL: and a page about it]"))
    async with dispatching(database, clock, agent) as dispatcher:
        await Admission(database, clock, on_admitted=dispatcher.wake).admit(candidate("1"))
        await until(lambda: len(agent.turns) == 1 and dispatcher.running == 0)
    [row] = await rows(database, deliveries, "last_error")
    assert row.last_error == "ValueError: what went wrong"


async def test_giving_up_makes_a_dead_letter_at_once(database: Database, clock: ManualClock) -> None:
    await Admission(database, clock).admit(candidate())
    async with dispatching(database, clock, Agent(GiveUp("no use", hint="ask"))):
        await settled(database, "dead")
    [row] = await rows(database, deliveries)
    assert (row.tries, row.last_error) == (1, "no use (ask)")


async def test_a_dead_letter_sent_again_is_run_again(database: Database, clock: ManualClock) -> None:
    agent = Agent(GiveUp("no use"))
    decision = await Admission(database, clock).admit(candidate())
    async with dispatching(database, clock, agent) as dispatcher:
        await settled(database, "dead")
        await redeliver(database, clock, decision.delivery_id)
        dispatcher.wake()
        await settled(database, "done")
    assert [turn.tries for turn in agent.turns] == [1, 1]


async def test_a_delivery_whose_agent_is_gone_waits_to_be_sent_again(database: Database, clock: ManualClock) -> None:
    agent = Agent(AgentGone("reviewer"))
    decision = await Admission(database, clock).admit(candidate())
    async with dispatching(database, clock, agent) as dispatcher:
        await settled(database, "agent_gone")
        clock.advance(86_400)
        assert len(agent.turns) == 1
        await redeliver(database, clock, decision.delivery_id)
        dispatcher.wake()
        await settled(database, "done")


async def test_no_more_than_its_workers_run_at_the_same_time(database: Database, clock: ManualClock) -> None:
    most = now = 0

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.002)
        now -= 1

    await asyncio.gather(*(Admission(database, clock).admit(candidate()) for _ in range(30)))
    async with dispatching(database, clock, run, workers=4):
        await settled(database, *["done"] * 30)
    assert most == 4


async def test_what_another_daemon_announced_is_not_announced_again(database: Database, clock: ManualClock) -> None:
    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        await asyncio.Event().wait()

    announced = 0

    def announce() -> None:
        nonlocal announced
        announced += 1

    dispatcher = Dispatcher(database, clock, [Inbox(database, clock)], run, workers=1, on_full=announce)
    await Admission(database, clock).admit(candidate())
    task = asyncio.create_task(dispatcher.run())
    await until(lambda: announced == 1)
    for _ in range(3):
        dispatcher.on_announcement()
        await asyncio.sleep(0.01)
    assert announced == 1
    dispatcher.wake()
    await until(lambda: announced == 2)
    await dispatcher.stop(0)
    await task


async def test_stopping_waits_for_what_runs(database: Database, clock: ManualClock) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        begun.set()
        await go.wait()

    await Admission(database, clock).admit(candidate())
    async with dispatching(database, clock, run, grace=20):
        await begun.wait()
        await Admission(database, clock).admit(candidate())
        asyncio.get_running_loop().call_later(0.02, go.set)
    assert sorted(await states(database)) == ["done", "queued"]


async def test_what_does_not_end_within_the_grace_is_queued_for_the_next_start(
    database: Database, clock: ManualClock
) -> None:
    begun = asyncio.Event()

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        begun.set()
        await asyncio.Event().wait()

    await Admission(database, clock).admit(candidate())
    async with dispatching(database, clock, run):
        await begun.wait()
    [row] = await rows(database, deliveries)
    assert (row.state, row.tries, row.last_error) == ("queued", 0, "the daemon stopped")
    async with dispatching(database, clock, Agent()):
        await settled(database, "done")


async def test_what_is_claimed_while_it_stops_is_put_back(database: Database, clock: ManualClock) -> None:
    claiming, go = asyncio.Event(), asyncio.Event()

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        await asyncio.Event().wait()

    await Admission(database, clock).admit(candidate())
    dispatcher = Dispatcher(database, clock, [Inbox(database, clock)], run)
    store = database.commits.store

    async def slow_claim(stage: object, item: object) -> object:
        if stage is SHARES:
            claiming.set()
            await go.wait()
        return await store(stage, item)  # type: ignore[arg-type]

    database.commits.store = slow_claim  # type: ignore[method-assign,assignment]
    running = asyncio.create_task(dispatcher.run())
    await claiming.wait()
    stopping = asyncio.create_task(dispatcher.stop(0.0))
    await asyncio.sleep(0)
    go.set()
    await stopping
    [row] = await rows(database, deliveries)
    assert (row.state, row.attempt, row.tries) == ("queued", 1, 0)
    await running


async def test_a_killed_run_goes_on_after_its_last_step(tmp_path: object, clock: ManualClock) -> None:
    acts: list[str] = []

    async def act(name: str) -> str:
        acts.append(name)
        return name

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        await log.step("first", {}, lambda: act("first"))
        if turn.attempt == 1:
            await log.settle()
            reached.set()
            await asyncio.Event().wait()
        await log.step("second", {}, lambda: act("second"))

    reached = asyncio.Event()
    key = MasterKey(b"k" * 32)
    database = await Database.open(f"sqlite:///{tmp_path}/db", key)
    await Admission(database, clock).admit(candidate())
    killed = asyncio.create_task(Dispatcher(database, clock, [Inbox(database, clock)], run).run())
    await reached.wait()
    # The first daemon writes nothing any more; the next one opens the same file.
    next_one = await Database.open(f"sqlite:///{tmp_path}/db", key)
    async with dispatching(next_one, clock, run):
        await settled(next_one, "done")
    assert acts == ["first", "second"]
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.wait({killed})
    await next_one.close()
    await database.close()


async def killed_while_running(path: Path, clock: ManualClock, count: int, waiting: int = 0) -> Database:
    """Return a database as a killed daemon left it: `count` deliveries were running, others wait."""
    database = await Database.open(path, MasterKey(b"k" * 32))
    for number in range(count + waiting):
        await Admission(database, clock).admit(candidate(str(number)))
    assert len(await Inbox(database, clock).claim(count)) == count
    return database


async def test_what_a_kill_broke_off_runs_one_by_one_and_before_others(tmp_path: Path, clock: ManualClock) -> None:
    database = await killed_while_running(tmp_path / "db", clock, 4, waiting=6)
    beside: list[int] = []
    names: list[str | None] = []

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        beside.append(dispatcher.running)
        names.append(turn.provider_delivery_id)
        await asyncio.sleep(0.01)

    async with dispatching(database, clock, run) as dispatcher:
        await settled(database, *["done"] * 10)
    assert beside[:4] == [1] * 4
    assert names[:4] == ["0", "1", "2", "3"]
    assert max(beside[4:]) > 1
    assert {row.tries for row in await rows(database, deliveries)} == {1}
    await database.close()


async def test_others_run_beside_one_that_takes_long(tmp_path: Path, clock: ManualClock) -> None:
    database = await killed_while_running(tmp_path / "db", clock, 2, waiting=2)
    begun: list[str | None] = []
    end = asyncio.Event()

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        begun.append(turn.provider_delivery_id)
        await end.wait()

    async with dispatching(database, clock, run):
        await until(lambda: begun == ["0"])
        await asyncio.sleep(0.05)
        assert begun == ["0"]
        clock.advance(ALONE_SECONDS)
        await until(lambda: begun == ["0", "1", "2", "3"])
        suspect = [row.suspect for row in await rows(database, deliveries, "suspect", "id")]
        assert suspect == [False, True, False, False]
        end.set()
        await settled(database, *["done"] * 4)
    await database.close()


@pytest.mark.parametrize("name", ["_claim", "_claim_suspects"])
async def test_a_claim_that_is_stored_after_it_was_refused_is_run(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    database = await killed_while_running(tmp_path / "db", clock, 1)
    if name == "_claim":
        await Inbox(database, clock).recover()
        await database.transact(lambda connection: connection.execute(update(deliveries).values(suspect=False)))
    claim, slow = getattr(Inbox, name), True

    def once_slow(inbox: Inbox, *given: object) -> object:
        nonlocal slow
        claimed = claim(inbox, *given)
        if slow:
            time.sleep(0.5)
        slow = False
        return claimed

    monkeypatch.setattr(Inbox, name, once_slow)
    monkeypatch.setattr(database.commits, "_answer_seconds", 0.1)
    agent = Agent()
    async with dispatching(database, SYSTEM, agent):
        await settled(database, "done")
    assert [turn.tries for turn in agent.turns] == [1]
    await database.close()


async def test_a_run_whose_lease_could_not_be_renewed_uses_up_no_try(
    postgres_url: str, master_key: MasterKey, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        tries.append(turn.tries)
        if len(tries) == 1:
            await asyncio.Event().wait()

    async def away(inbox: Inbox, turns: object) -> object:
        raise Unavailable("the server does not answer")

    monkeypatch.setattr(Inbox, "renew", away)
    database = await Database.open(postgres_url, master_key)
    await Admission(database, clock).admit(candidate())
    async with dispatching(database, clock, run), asyncio.timeout(60):
        while await states(database) != ["done"]:
            clock.advance(1)
            await asyncio.sleep(0.005)
    assert tries == [1, 1]
    await database.close()


async def test_a_task_that_an_agent_cancelled_is_a_failure_of_the_run(database: Database, clock: ManualClock) -> None:
    tries: list[int] = []

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        tries.append(turn.tries)
        if len(tries) == 1:
            task = asyncio.create_task(asyncio.sleep(60))
            task.cancel()
            await task

    async with dispatching(database, clock, run) as dispatcher:
        await Admission(database, clock, on_admitted=dispatcher.wake).admit(candidate())
        await until(lambda: len(tries) == 1 and dispatcher.running == 0)
        [row] = await rows(database, deliveries)
        assert "a task of the agent was cancelled" in row.last_error
        clock.advance(delay(1, spread=1))
        await settled(database, "done")
    assert tries == [1, 2]


async def test_two_daemons_never_run_one_delivery_at_the_same_time(postgres_url: str, master_key: MasterKey) -> None:
    running: set[str] = set()
    ran: list[str] = []

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        assert turn.delivery_id not in running
        running.add(turn.delivery_id)
        await asyncio.sleep(0.005)
        running.discard(turn.delivery_id)
        ran.append(turn.delivery_id)

    databases = [await Database.open(postgres_url, master_key) for _ in range(2)]
    async with dispatching(databases[0], SYSTEM, run), dispatching(databases[1], SYSTEM, run):
        await asyncio.gather(*(Admission(databases[n % 2], SYSTEM).admit(candidate()) for n in range(100)))
        await settled(databases[0], *["done"] * 100)
    assert len(ran) == len(set(ran)) == 100
    for database in databases:
        await database.close()


async def test_a_run_whose_lease_another_took_is_broken_off(
    postgres_url: str, master_key: MasterKey, clock: ManualClock
) -> None:
    broken_off = asyncio.Event()
    begun = asyncio.Event()

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            broken_off.set()
            raise

    database = await Database.open(postgres_url, master_key)
    await Admission(database, clock).admit(candidate())
    async with dispatching(database, clock, run):
        await begun.wait()
        async with database.write() as connection:
            await connection.execute(update(deliveries).values(attempt=7))
        async with asyncio.timeout(60):
            while not broken_off.is_set():
                clock.advance(11)
                await asyncio.sleep(0.005)
    assert await states(database) == ["running"]
    await database.close()


async def test_a_run_is_recorded_when_the_database_comes_back(
    postgres_url: str, master_key: MasterKey, clock: ManualClock
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        begun.set()
        await go.wait()

    database = await Database.open(postgres_url, master_key)
    await Admission(database, clock).admit(candidate())
    async with dispatching(database, clock, run):
        await begun.wait()
        await cut_off(database)
        go.set()
        async with asyncio.timeout(60):
            while await states(database) != ["done"]:
                clock.advance(1)
                await asyncio.sleep(0.005)
    assert [row.state for row in await rows(database, runs)] == ["done"]
    await database.close()


async def test_an_error_of_the_program_ends_the_dispatcher_with_it(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox(database, clock)
    dispatcher = Dispatcher(database, clock, [inbox], Agent())

    def broken(connection: Connection, limit: int) -> list[ClaimedDelivery]:
        raise ZeroDivisionError

    monkeypatch.setattr(inbox, "claim_in", broken)
    with pytest.raises(ZeroDivisionError):
        await dispatcher.run()


@given(st.integers(1, 200), st.floats(0, 1))
def test_the_wait_grows_and_is_bounded(tries: int, spread: float) -> None:
    assert 1 <= delay(tries, spread=spread) <= 3600
    assert delay(tries + 1, spread=spread) >= delay(tries, spread=spread)


def test_what_failed_together_comes_back_apart() -> None:
    assert delay(1, spread=0.0) == 1
    assert delay(1, spread=1.0) == 2
    assert delay(4, spread=1.0) == 250
