"""A process that runs deliveries and messages of several threads until it is killed, or until none is left.

`python -m tests.runtime.threads.turns.thread_worker URL NOTES`: each attempt writes `begin THREAD TURN` to the file
NOTES, and `end THREAD TURN` a moment later. The thread of a delivery is the first letter of the provider's id.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from runtime.agents.dispatcher import Dispatcher
from runtime.agents.running_turn import Source
from runtime.clock import SYSTEM
from runtime.database.connection import Database
from runtime.threads.inputs import ClaimedInput, Inputs
from runtime.threads.run_log import RunLog
from runtime.threads.turns.backlog import BacklogReader
from runtime.threads.turns.thread_order import ThreadOrder
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from runtime.webhooks.deliveries.inbox import Inbox
from tests.conftest import KEY
from tests.runtime.threads.turns.sending import thread_id

LEASE = 1.0


async def work(url: str, notes: Path) -> None:
    file = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    database = await Database.open(url, KEY)
    threads = ThreadOrder(database, SYSTEM)

    async def run(turn: ClaimedDelivery | ClaimedInput, log: RunLog) -> None:
        match turn:
            case ClaimedDelivery():
                thread = thread_id((turn.provider_delivery_id or "")[0])
            case ClaimedInput():
                thread = turn.thread_id
        await threads.enter(turn, thread)
        os.write(file, f"begin {thread} {turn.id}\n".encode())
        await log.step("tool", {}, lambda: asyncio.sleep(random.uniform(0, 0.05)), key="a", repeatable=True)
        os.write(file, f"end {thread} {turn.id}\n".encode())

    sources: list[Source] = [Inbox(database, SYSTEM, lease=LEASE), Inputs(database, SYSTEM, lease=LEASE)]
    dispatcher = Dispatcher(database, SYSTEM, sources, run, poll=0.05)
    running = asyncio.create_task(dispatcher.run())
    backlog = BacklogReader(database, SYSTEM)
    while True:
        await backlog.look()
        if backlog.all is not None and not any(backlog.all.states.values()):
            break
        await asyncio.sleep(0.1)
    await dispatcher.stop(1)
    await running
    await database.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2])))
