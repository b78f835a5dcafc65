"""A process that edits a block until it is killed, or until all edits of its run are made.

`python -m tests.runtime.memory.core.editor URL RUN COUNT`: begins the next attempt at the run and makes its edits in
order. Prints the number of each edit before it begins.
"""

from __future__ import annotations

import asyncio
import sys

from sqlalchemy import select

from runtime.clock import SYSTEM, milliseconds
from runtime.database.connection import Database
from runtime.database.schema import runs
from runtime.memory.core.block import BlockScope, Origin
from runtime.memory.core.store import BlockStore
from runtime.threads.run import Begin, begin
from tests.conftest import KEY


async def edit(url: str, run_id: str, count: int) -> None:
    database = await Database.open(url, KEY)
    async with database.read() as connection:
        before = (await connection.execute(select(runs.c.attempt).where(runs.c.id == run_id))).scalar() or 0
    attempt = before + 1
    begun = Begin(run_id, "owner", "message", None, None, "assistant", attempt, milliseconds(SYSTEM), new=before == 0)
    await database.transact(lambda connection: begin(connection, [begun]))
    store, scope = BlockStore(database, SYSTEM), BlockScope("owner", "assistant")
    await store.ensure(scope)
    for number in range(count):
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        await store.append(scope, "human", f"{run_id} {number}", Origin("agent", run_id, attempt, str(number)))
    await database.close()


if __name__ == "__main__":
    asyncio.run(edit(sys.argv[1], sys.argv[2], int(sys.argv[3])))
