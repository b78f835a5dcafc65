"""Kill -9 in the middle of admissions: everything acknowledged is there, whole."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.schema import bodies, deliveries
from runtime.database.sealed import Seal
from runtime.webhooks.deliveries.stored_request import body_of
from tests.lanes import EFFORT, LONG
from tests.runtime.webhooks.candidates import rows

ROOT = Path(__file__).parents[4]


@LONG
async def test_everything_acknowledged_is_there_after_kill_9(database_url: str, master_key: MasterKey) -> None:
    acknowledged: set[str] = set()
    for round_number in range(1, 11 if EFFORT > 1 else 3):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.runtime.webhooks.admitter", database_url),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        for _ in range(100 * round_number):
            acknowledged.add((await process.stdout.readline()).decode().strip())
        process.kill()
        # Everything that it printed before it died was acknowledged, except a torn last line.
        tail = (await process.stdout.read()).decode()
        acknowledged.update(tail.splitlines() if tail.endswith("\n") else tail.splitlines()[:-1])
        await process.wait()
    database = await Database.open(database_url, master_key)
    assert acknowledged <= {row.id for row in await rows(database, deliveries, "id")}
    seal = Seal(database.keys, bodies.c.body)
    whole = {
        row.delivery_id
        for row in await rows(database, bodies)
        if body_of(seal.open(row.body, row=row.delivery_id), row.headers_size) == b"x" * 5000
    }
    assert whole == {row.id for row in await rows(database, deliveries, "id")}
    await database.close()
