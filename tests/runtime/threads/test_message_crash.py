"""A writer that is killed in the middle leaves no gap, and what it repeats is appended once."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from asyncio.subprocess import Process

from sqlalchemy import select

from runtime.clock import SYSTEM, uuid7
from runtime.database.connection import Database
from runtime.database.schema import messages as table
from runtime.threads.messages import Messages
from runtime.threads.thread import Threads
from tests.conftest import KEY
from tests.lanes import LONG, repeated
from tests.runtime.threads.append_worker import work
from tests.runtime.threads.thread_runs import count

NUMBER = 600


async def started(url: str, run_id: str) -> Process:
    worker = "tests.runtime.threads.append_worker"
    return await asyncio.create_subprocess_exec(sys.executable, "-m", worker, url, run_id, str(NUMBER))


@LONG
@repeated("kills", few=1, many=30)
async def test_a_killed_writer_leaves_no_gap_and_nothing_twice(database_url: str, kills: int) -> None:
    rng = random.Random(6)
    run_id = uuid7(SYSTEM)
    database = await Database.open(database_url, KEY)
    thread = await Threads(database, SYSTEM).main("owner", "helper")
    ends = []
    for number in range(kills):
        process = await started(database_url, run_id)
        wanted = min(NUMBER - 1, (number * NUMBER) // kills + rng.randrange(1, NUMBER // kills))
        while process.returncode is None and await count(database, "messages") < wanted:
            await asyncio.sleep(0)
        if process.returncode is None:
            process.kill()
        ends.append(await process.wait())
        async with database.read() as connection:
            positions = list(await connection.scalars(select(table.c.position).order_by(table.c.position)))
        assert positions == list(range(len(positions)))
    assert -signal.SIGKILL in ends
    await work(database_url, run_id, NUMBER)
    found = await Messages(database, SYSTEM).read(thread, limit=2 * NUMBER)
    assert [message.position for message in found] == list(range(NUMBER))
    assert [message.text for message in found] == [str(each) for each in range(NUMBER)]
    assert await Messages(database, SYSTEM).count(thread) == NUMBER
    await database.close()
