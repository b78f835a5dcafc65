"""A webhook with `concurrency` runs that many deliveries at once and queues the rest; other webhooks do not wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import text, update

from runtime.agents.dispatcher import Dispatcher
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.schema import bodies, deliveries, runs
from runtime.errors import Retry
from runtime.threads.run_log import RunLog
from runtime.threads.turns import due
from runtime.threads.turns.claimable import claim_queries
from runtime.threads.turns.concurrency import ConcurrencyLimits
from runtime.threads.turns.turn import Outcome
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.deliveries.redelivery import redeliver
from runtime.webhooks.receiving.admission import Admission
from tests.clocks import ManualClock
from tests.lanes import LONG
from tests.runtime.webhooks.candidates import candidate, rows

ONE = {"github-events": 1}
QUERIES = claim_queries(Inbox.table.name, Inbox.columns, Inbox.group, Inbox.arrived)


class Places:
    """An agent that records how many deliveries of each webhook run at the same time."""

    def __init__(self, seconds: float = 0.003) -> None:
        self.seconds = seconds
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: list[str] = []

    async def __call__(self, turn: ClaimedDelivery, log: RunLog) -> None:
        self.now[turn.webhook] += 1
        self.most[turn.webhook] = max(self.most[turn.webhook], self.now[turn.webhook])
        self.order.append(turn.delivery_id)
        await asyncio.sleep(self.seconds)
        self.now[turn.webhook] -= 1


def limited(database: Database, clock: ManualClock, places: Mapping[str, int]) -> Inbox:
    return Inbox(database, clock, limits=lambda: ConcurrencyLimits(places))


async def admitted(database: Database, clock: ManualClock, count: int, webhook: str = "github-events") -> list[str]:
    """Return the ids of that many new deliveries, oldest first."""
    ids = []
    for _ in range(count):
        ids.append((await Admission(database, clock).admit(candidate(webhook=webhook))).delivery_id)
        clock.advance(0.001)
    return ids


def ids(turns: list[ClaimedDelivery]) -> list[str]:
    return [turn.delivery_id for turn in turns]


async def all_done(database: Database) -> None:
    async with asyncio.timeout(300):
        while {row.state for row in await rows(database, deliveries, "state")} != {"done"}:
            await asyncio.sleep(0.01)


async def test_no_more_than_its_places_are_claimed(database: Database, clock: ManualClock) -> None:
    mine = await admitted(database, clock, 5)
    inbox = limited(database, clock, {"github-events": 2})
    first = await inbox.claim(10)
    assert ids(first) == mine[:2]
    assert await inbox.claim(10) == []
    await inbox.finish(first[0], Outcome("done"))
    assert ids(await inbox.claim(10)) == mine[2:3]


async def test_a_long_line_does_not_keep_others_waiting(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "QUEUED_AT_A_TIME", 4)
    monkeypatch.setattr(due, "ROUNDS", 3)
    mine = await admitted(database, clock, 30)
    others = await admitted(database, clock, 3, "payments")
    inbox = limited(database, clock, ONE)
    claimed = await inbox.claim(2)
    while inbox.again is not None:
        claimed += await inbox.claim(2)
    claimed += await inbox.claim(2)
    assert sorted(ids(claimed)) == sorted([mine[0], *others])


async def test_with_one_place_the_order_is_that_of_arrival(database: Database, clock: ManualClock) -> None:
    mine = await admitted(database, clock, 4)
    inbox = limited(database, clock, ONE)
    order = []
    for _ in range(4):
        [turn] = await inbox.claim(10)
        order.append(turn.delivery_id)
        await inbox.finish(turn, Outcome("done"))
    assert order == mine


async def test_one_that_failed_lets_others_pass_and_is_then_the_first_again(
    database: Database, clock: ManualClock
) -> None:
    mine = await admitted(database, clock, 4)
    inbox = limited(database, clock, ONE)
    [failed] = await inbox.claim(10)
    await inbox.finish(failed, Outcome("queued", "busy", wait=10))
    [second] = await inbox.claim(10)
    clock.advance(11)
    await inbox.finish(second, Outcome("done"))
    [again] = await inbox.claim(10)
    assert (second.delivery_id, again.delivery_id, again.tries) == (mine[1], mine[0], 2)


async def test_a_dead_letter_sent_again_has_its_old_place(database: Database, clock: ManualClock) -> None:
    mine = await admitted(database, clock, 3)
    inbox = limited(database, clock, ONE)
    [first] = await inbox.claim(10)
    await inbox.finish(first, Outcome("dead", "no"))
    await redeliver(database, clock, first.delivery_id)
    assert ids(await inbox.claim(10)) == mine[:1]


async def test_a_limit_that_is_taken_back_frees_the_line(database: Database, clock: ManualClock) -> None:
    mine = await admitted(database, clock, 5)
    places = dict(ONE)
    inbox = limited(database, clock, places)
    await inbox.claim(10)
    places.clear()
    clock.advance(31)
    assert ids(await inbox.claim(10)) == mine[1:]
    assert [row.lane for row in await rows(database, deliveries, "lane", "id")] == [None] * 5


async def test_a_line_outlives_the_daemon(database: Database, clock: ManualClock) -> None:
    mine = await admitted(database, clock, 3)
    [turn] = await limited(database, clock, ONE).claim(10)
    next_one = Inbox(database, clock)
    await next_one.recover()
    if not next_one.shared:
        again = await next_one.claim_suspect()
        assert again is not None
        assert again.id == mine[0]
    assert ids(await next_one.claim(10)) == mine[1:]
    assert turn.delivery_id == mine[0]


async def test_what_a_kill_broke_off_keeps_its_place_in_the_line(tmp_path: Path, clock: ManualClock) -> None:
    database = await Database.open(f"sqlite:///{tmp_path}/db", MasterKey(b"k" * 32))
    mine = await admitted(database, clock, 3)
    await limited(database, clock, ONE).claim(10)
    inbox = limited(database, clock, ONE)
    await inbox.recover()
    assert await inbox.claim(10) == []
    first = await inbox.claim_suspect()
    assert first is not None
    assert await inbox.claim(10) == []
    await inbox.finish(first, Outcome("done"))
    assert [first.id, *ids(await inbox.claim(10))] == mine[:2]
    await database.close()


async def test_one_whose_body_is_gone_leaves_the_line_as_a_dead_letter(database: Database, clock: ManualClock) -> None:
    mine = await admitted(database, clock, 2)
    inbox = limited(database, clock, ONE)
    [turn] = await inbox.claim(1)
    async with database.write() as connection:
        await connection.execute(bodies.delete())
    await inbox.finish(turn, Outcome("done"))
    assert await inbox.claim(10) == []
    [_, row] = await rows(database, deliveries, "id", "state", "lane", "last_error")
    assert (row.id, row.state, row.lane) == (mine[1], "dead", None)
    assert row.last_error == "its body is no longer stored"


async def test_at_no_time_do_more_run_than_there_are_places(database: Database) -> None:
    agent = Places()
    await asyncio.gather(*(Admission(database, SYSTEM).admit(candidate()) for _ in range(40)))
    await asyncio.gather(*(Admission(database, SYSTEM).admit(candidate(webhook="payments")) for _ in range(40)))
    inbox = Inbox(database, SYSTEM, limits=lambda: ConcurrencyLimits({"github-events": 3}))
    dispatcher = Dispatcher(database, SYSTEM, [inbox], agent, poll=0.05)
    task = asyncio.create_task(dispatcher.run())
    await all_done(database)
    await dispatcher.stop(0)
    await task
    assert agent.most["github-events"] == 3
    assert agent.most["payments"] > 3


@LONG
@pytest.mark.parametrize("places", [1, 3])
async def test_several_daemons_together_keep_to_the_places(
    postgres_url: str, master_key: MasterKey, places: int
) -> None:
    agent = Places()
    databases = [await Database.open(postgres_url, master_key) for _ in range(3)]
    await asyncio.gather(*(Admission(databases[0], SYSTEM).admit(candidate()) for _ in range(60)))
    limits = ConcurrencyLimits({"github-events": places})
    inboxes = [Inbox(database, SYSTEM, limits=lambda: limits) for database in databases]
    dispatchers = [
        Dispatcher(database, SYSTEM, [inbox], agent, poll=0.05)
        for database, inbox in zip(databases, inboxes, strict=True)
    ]
    tasks = [asyncio.create_task(dispatcher.run()) for dispatcher in dispatchers]
    await all_done(databases[0])
    for dispatcher in dispatchers:
        await dispatcher.stop(0)
    await asyncio.gather(*tasks)
    assert agent.most["github-events"] == places
    assert len(agent.order) == len(set(agent.order)) == 60
    if places == 1:
        assert agent.order == sorted(agent.order)
    for database in databases:
        await database.close()


async def test_a_claim_does_not_sort_all_that_waits(database: Database, clock: ManualClock) -> None:
    shared = database.kind == "postgresql"
    explain = "EXPLAIN" if shared else "EXPLAIN QUERY PLAN"
    await asyncio.gather(*(Admission(database, clock).admit(candidate()) for _ in range(300)))
    given = {"now": int(clock.now() * 1000), "limit": 8}
    for query in (QUERIES.due[True], QUERIES.expired) if shared else (QUERIES.due[False],):
        async with database.write() as connection:
            used = {name: value for name, value in given.items() if f":{name}" in query.text}
            plan = "\n".join(row[-1] for row in await connection.execute(text(f"{explain} {query.text}"), used))
        assert ("Index Scan using ix_deliveries_" if shared else "USING INDEX ix_deliveries_due") in plan
        assert "Sort" not in plan
        assert "TEMP B-TREE" not in plan


async def test_a_place_whose_lease_has_run_out_is_free_again(
    postgres_url: str, master_key: MasterKey, clock: ManualClock
) -> None:
    database = await Database.open(postgres_url, master_key)
    mine = await admitted(database, clock, 2)
    inbox = limited(database, clock, ONE)
    [lost] = await inbox.claim(10)
    async with database.write() as connection:
        await connection.execute(update(deliveries).where(deliveries.c.state == "running").values(lease_until=1))
    [again] = await inbox.claim(10)
    assert (again.delivery_id, again.attempt, again.run_id) == (mine[0], 2, lost.run_id)
    assert await inbox.claim(10) == []
    assert [row.state for row in await rows(database, runs)] == ["running"]
    await database.close()


async def test_a_failing_agent_does_not_hold_its_place_while_it_waits(database: Database, clock: ManualClock) -> None:
    calls: list[str] = []

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        calls.append(turn.delivery_id)
        raise Retry("busy")

    mine = await admitted(database, clock, 3)
    dispatcher = Dispatcher(database, clock, [limited(database, clock, ONE)], run)
    task = asyncio.create_task(dispatcher.run())
    async with asyncio.timeout(60):
        while len(calls) < 3:
            await asyncio.sleep(0.005)
    assert calls == mine
    await dispatcher.stop(5)
    await task
