"""A process that counts by compare-and-set until it is killed, or until all calls of its run are made.

`python -m tests.runtime.tables.kv.counter URL RUN COUNT`: begins the next attempt at the run and makes its calls in
order: each adds 1 to the entry of the run, at the version that the call before returned. Prints the number of each call
before it begins.
"""

from __future__ import annotations

import asyncio
import sys

from sqlalchemy import select

from runtime.clock import SYSTEM, milliseconds
from runtime.database.connection import Database
from runtime.database.schema import runs
from runtime.tables.kv.writes import CallOrigin
from runtime.threads.run import Begin, begin
from tests.conftest import KEY
from tests.runtime.tables.kv.stores import store_of


async def count(url: str, run_id: str, calls: int) -> None:
    database = await Database.open(url, KEY)
    async with database.read() as connection:
        before = (await connection.execute(select(runs.c.attempt).where(runs.c.id == run_id))).scalar() or 0
    begun = Begin(run_id, "owner", "message", None, None, "helper", before + 1, milliseconds(SYSTEM), new=before == 0)
    await database.transact(lambda connection: begin(connection, [begun]))
    store, version = store_of(database, SYSTEM), 0
    for number in range(calls):
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        origin = CallOrigin(run_id, before + 1, str(number))
        done = await store.set(run_id, number + 1, [run_id], expected=version, origin=origin)
        version = done.version
    await database.close()


if __name__ == "__main__":
    asyncio.run(count(sys.argv[1], sys.argv[2], int(sys.argv[3])))
