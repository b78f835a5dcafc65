"""Threads, messages to agents in them, and agents whose turns have threads, for tests."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import insert

from runtime.agents.dispatcher import Dispatcher, Run
from runtime.agents.running_turn import Source
from runtime.clock import Clock, milliseconds
from runtime.database.connection import Database
from runtime.database.schema import OWNER, TURN_TABLES, threads
from runtime.threads.inputs import Inputs
from runtime.threads.run_log import RunLog
from runtime.threads.turns.thread_order import ThreadOrder
from runtime.threads.turns.turn import ClaimedTurn
from runtime.webhooks.deliveries.inbox import Inbox
from tests.runtime.webhooks.candidates import rows

AGENT = "helper"


def thread_id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


async def open_thread(database: Database, clock: Clock, name: str = "0", user_id: str = OWNER) -> str:
    """Create the thread of this name and return its id; one that exists is returned as it is."""
    made, now = thread_id(name), milliseconds(clock)
    row = {"id": made, "user_id": user_id, "agent": AGENT, "created_at": now, "updated_at": now}

    def create(connection: Any) -> None:
        if connection.execute(threads.select().where(threads.c.id == made)).first() is None:
            connection.execute(insert(threads).values(**row))

    await database.transact(create)
    return made


async def send(database: Database, clock: Clock, *texts: str, thread: str = "0") -> list[str]:
    """Send messages in one thread, one after the other, and return their ids."""
    made, inputs = await open_thread(database, clock, thread), Inputs(database, clock)
    return [await inputs.send(OWNER, AGENT, made, each, {"write"}) for each in texts]


class Entering:
    """An agent all of whose turns are of one thread, at most one of which runs at a time. `acts`: what the attempts do
    before they succeed."""

    def __init__(self, database: Database, clock: Clock, thread: str, *acts: Exception) -> None:
        self.acts = list(acts)
        self.order: list[str] = []
        """Ids of the turns that had the thread, one for each attempt."""
        self.most = 0
        self._now = 0
        self._thread = thread
        self._threads = ThreadOrder(database, clock)

    async def __call__(self, turn: ClaimedTurn, log: RunLog) -> str:
        await self._threads.enter(turn, self._thread)
        self.order.append(turn.id)
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0.001)
        self._now -= 1
        if self.acts:
            raise self.acts.pop(0)
        return "answered"


@asynccontextmanager
async def dispatching(database: Database, clock: Clock, run: Run, **given: Any) -> AsyncIterator[Dispatcher]:
    """Run deliveries and messages. Several dispatchers on one database are as many daemons."""
    sources: list[Source] = [Inbox(database, clock), Inputs(database, clock)]
    dispatcher = Dispatcher(database, clock, sources, run, **given)
    task = asyncio.create_task(dispatcher.run())
    try:
        yield dispatcher
    finally:
        await dispatcher.stop(0)
        await task


async def states(database: Database) -> dict[str, str]:
    """Return the states of all turns, by id."""
    found = [await rows(database, table, "id", "state") for table in TURN_TABLES.values()]
    return {row.id: row.state for each in found for row in each}


async def settled(database: Database, expected: dict[str, str]) -> None:
    """Wait until the turns are in these states."""
    async with asyncio.timeout(60):
        while (found := await states(database)) != expected:
            await asyncio.sleep(0.01)
    assert found == expected
