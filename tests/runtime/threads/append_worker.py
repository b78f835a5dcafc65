"""A process that appends messages to a thread until it is killed, or until all are there.

`python -m tests.runtime.threads.append_worker URL RUN NUMBER`: each process is one more attempt at the run, and begins
with the first message again.
"""

from __future__ import annotations

import asyncio
import sys

from sqlalchemy import select

from runtime.clock import SYSTEM
from runtime.database.connection import Database
from runtime.database.schema import runs
from runtime.threads.messages import Messages
from runtime.threads.thread import Threads
from tests.conftest import KEY
from tests.runtime.threads.thread_runs import begin, said


async def work(url: str, run_id: str, number: int) -> None:
    database = await Database.open(url, KEY)
    thread = await Threads(database, SYSTEM).main("owner", "helper")
    async with database.read() as connection:
        attempt = (await connection.execute(select(runs.c.attempt).where(runs.c.id == run_id))).scalar() or 0
    await begin(database, thread.id, run_id=run_id, attempt=attempt + 1)
    messages = Messages(database, SYSTEM)
    waiting = []
    for first in range(0, number, 3):
        new = [said(str(each), key=str(each)) for each in range(first, min(first + 3, number))]
        waiting.append(messages.put(thread, new, run_id=run_id, attempt=attempt + 1))
        if len(waiting) == 5:
            await waiting.pop(0)
    await asyncio.gather(*waiting)
    await database.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], int(sys.argv[3])))
