"""On PostgreSQL the transactions of several daemons never wait for each other in a circle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from sqlalchemy import Connection, select

from runtime.agents.dispatcher import Dispatcher
from runtime.clock import SYSTEM
from runtime.database.connection import Database
from runtime.database.group_commit import Stage
from runtime.database.schema import deliveries
from runtime.database.schema import threads as table
from runtime.threads.messages import Messages
from runtime.threads.run_log import RunLog
from runtime.threads.summaries import Summaries
from runtime.threads.thread import Threads
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.receiving.admission import Admission
from tests.conftest import KEY
from tests.lanes import LONG, repeated
from tests.runtime.threads.test_messages import deadlocks
from tests.runtime.threads.test_summaries import summary
from tests.runtime.threads.thread_runs import count, many_threads, said
from tests.runtime.webhooks.candidates import candidate, rows

pytestmark = LONG

AGENTS = 3


@pytest.fixture
async def daemons(postgres_url: str) -> AsyncIterator[list[Database]]:
    """Two daemons on one PostgreSQL."""
    opened = [await Database.open(postgres_url, KEY) for _ in range(2)]
    yield opened
    for each in opened:
        await each.close()


@repeated("number", few=30, many=2000)
async def test_daemons_that_run_turns_in_the_same_threads_do_not_wait_in_a_circle(
    daemons: list[Database], number: int
) -> None:
    inbox = Admission(daemons[0], SYSTEM)
    await asyncio.gather(*(inbox.admit(candidate(str(each), agent=f"agent{each % AGENTS}")) for each in range(number)))

    def run(database: Database) -> Dispatcher:
        threads, messages, summaries = (
            Threads(database, SYSTEM),
            Messages(database, SYSTEM),
            Summaries(database, SYSTEM),
        )

        async def work(turn: ClaimedDelivery, log: RunLog) -> None:
            async def act() -> str:
                return "reply"

            thread = await threads.main("owner", turn.agent)
            for step in range(3):
                await log.step("model", {}, act, key=f"model-{step}")
                new = [said("x", key=f"{step}-{n}") for n in range(2)]
                await messages.append(thread, new, run_id=turn.run_id, attempt=turn.attempt)
            last = (await messages.newest(thread, limit=1))[0].position
            await asyncio.gather(
                summaries.append(thread, summary(last), run_id=turn.run_id, attempt=turn.attempt),
                log.step("tool", {}, act, key="tool"),
                return_exceptions=True,
            )

        return Dispatcher(database, SYSTEM, [Inbox(database, SYSTEM)], work, poll=0.05)

    dispatchers = [run(each) for each in daemons]
    tasks = [asyncio.create_task(each.run()) for each in dispatchers]
    async with asyncio.timeout(600):
        while {row.state for row in await rows(daemons[0], deliveries, "state")} != {"done"}:
            await asyncio.sleep(0.05)
    for dispatcher in dispatchers:
        await dispatcher.stop(0)
    await asyncio.gather(*tasks)
    assert await count(daemons[0], "messages") == 6 * number
    for agent in range(AGENTS):
        thread = await Threads(daemons[0], SYSTEM).main("owner", f"agent{agent}")
        found = await Messages(daemons[1], SYSTEM).read(thread, limit=6 * number)
        assert [message.position for message in found] == list(range(len(found)))
    assert await deadlocks(daemons[0]) == 0


def lock(connection: Connection, ids: Sequence[str]) -> list[None]:
    query = select(table.c.id).where(table.c.id.in_(ids)).order_by(table.c.id).with_for_update(key_share=True)
    connection.execute(query)
    return [None for _ in ids]


def wanted(connection: Connection, ids: Sequence[str]) -> Sequence[str]:
    return ids


async def test_a_transaction_locks_the_threads_of_all_its_stages_in_one_order(daemons: list[Database]) -> None:
    await many_threads(daemons[0], 2)
    first, second = Stage(1, lock, threads=wanted), Stage(2, lock, threads=wanted)

    async def store(database: Database, *order: str) -> None:
        for _ in range(100):
            await asyncio.gather(*map(database.commits.put, (first, second), order))

    await asyncio.gather(store(daemons[0], "delivery0", "delivery1"), store(daemons[1], "delivery1", "delivery0"))
    assert await deadlocks(daemons[0]) == 0
