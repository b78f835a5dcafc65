"""A process that runs messages until it is killed, or until none waits.

`python -m tests.runtime.threads.turns.message_worker URL NOTES [block]`: each run writes its two steps to the file
NOTES, one line each; with `block` it stops between them. A message `kill` kills the process while the others run.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from sqlalchemy import text

from runtime.agents.dispatcher import Dispatcher
from runtime.clock import SYSTEM
from runtime.database.connection import Database
from runtime.threads.inputs import ClaimedInput, Inputs
from runtime.threads.run_log import RunLog
from tests.conftest import KEY

LEASE = 1.0


async def work(url: str, notes: Path, *, block: bool) -> None:
    def note(line: str) -> None:
        with notes.open("a") as file:
            file.write(f"{line}\n")

    async def run(turn: ClaimedInput, log: RunLog) -> None:
        async def step(name: str) -> None:
            note(f"{name} {turn.text}")

        await log.step("tool", {}, lambda: step("first"), key="first")
        await log.settle()
        if block:
            note("blocked")
            await asyncio.Event().wait()
        if turn.text == "kill":
            await asyncio.sleep(0.2)
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(1.5)
        await log.step("tool", {}, lambda: step("second"), key="second")

    database = await Database.open(url, KEY)
    source = Inputs(database, SYSTEM, lease=LEASE)
    dispatcher = Dispatcher(database, SYSTEM, [source], run, poll=0.05)
    running = asyncio.create_task(dispatcher.run())
    waiting = text("SELECT count(*) FROM inputs WHERE state IN ('queued', 'running', 'waiting')")
    while True:
        async with database.read() as connection:
            if not (await connection.execute(waiting)).scalar_one():
                break
        await asyncio.sleep(0.05)
    await dispatcher.stop(0)
    await running
    await database.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2]), block="block" in sys.argv))
