"""A killed process leaves each edit of its run made once or not at all, and the next attempt makes the rest."""

from __future__ import annotations

import asyncio
import random
import sys

from runtime.clock import SYSTEM
from runtime.database.connection import Database
from runtime.memory.core.block import BlockScope
from runtime.memory.core.store import BlockStore
from tests.conftest import KEY
from tests.lanes import LONG, repeated

COUNT = 30


async def editor(url: str, run_id: str) -> asyncio.subprocess.Process:
    given = (sys.executable, "-m", "tests.runtime.memory.core.editor", url, run_id, str(COUNT))
    return await asyncio.create_subprocess_exec(*given, stdout=asyncio.subprocess.PIPE)


async def killed(url: str, run_id: str, after: int) -> None:
    """Start an editor and kill it when it begins the edit with this number."""
    process = await editor(url, run_id)
    assert process.stdout is not None
    async with asyncio.timeout(300):
        async for line in process.stdout:
            if int(line) >= after:
                break
    process.kill()
    await process.wait()


@LONG
@repeated("rounds", 1, 25)
async def test_every_edit_is_made_once_however_often_the_process_is_killed(database_url: str, rounds: int) -> None:
    chance = random.Random(rounds)
    names = ("one", "two") if database_url.startswith("postgresql") else ("one",)
    for _ in range(rounds):
        await asyncio.gather(*(killed(database_url, name, chance.randrange(COUNT)) for name in names))
    for name in names:
        process = await editor(database_url, name)
        async with asyncio.timeout(300):
            await process.communicate()
        assert process.returncode == 0
    database = await Database.open(database_url, KEY)
    store, scope = BlockStore(database, SYSTEM), BlockScope("owner", "assistant")
    lines = (await store.read(scope, "human")).value.splitlines()
    versions = await store.history(scope, "human")
    await database.close()
    for name in names:
        assert [line for line in lines if line.startswith(name)] == [f"{name} {number}" for number in range(COUNT)]
    assert versions[0].version == len(lines) + 1
