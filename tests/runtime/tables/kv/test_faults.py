"""A killed process, a full disk and a removed user leave no half of anything."""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress
from pathlib import Path

from sqlalchemy import func, select

from runtime.clock import SYSTEM
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import kv, kv_calls, kv_tags, user_storage
from runtime.identity import users
from runtime.identity.belongings import delete_rows
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.lanes import EFFORT, LONG
from tests.runtime.tables.kv.stores import everything, storage_of, store_of

COUNT = 30


async def counter(url: str, run_id: str) -> asyncio.subprocess.Process:
    given = (sys.executable, "-m", "tests.runtime.tables.kv.counter", url, run_id, str(COUNT))
    return await asyncio.create_subprocess_exec(*given, stdout=asyncio.subprocess.PIPE)


async def killed(url: str, run_id: str, after: int) -> None:
    """Start a counter and kill it when it begins the call with this number."""
    process = await counter(url, run_id)
    assert process.stdout is not None
    async with asyncio.timeout(300):
        async for line in process.stdout:
            if int(line) >= after:
                break
    process.kill()
    await process.wait()


@LONG
async def test_every_call_happens_once_however_often_the_process_is_killed(database_url: str) -> None:
    rounds = 25 if EFFORT > 1 else 1
    chance = random.Random(rounds)
    names = ("one", "two") if database_url.startswith("postgresql") else ("one",)
    for _ in range(rounds):
        await asyncio.gather(*(killed(database_url, name, chance.randrange(COUNT)) for name in names))
    for name in names:
        process = await counter(database_url, name)
        async with asyncio.timeout(300):
            await process.communicate()
        # A false conflict would end it.
        assert process.returncode == 0
    database = await Database.open(database_url, KEY)
    found = await everything(store_of(database, SYSTEM))
    async with database.read() as connection:
        size = await connection.scalar(select(func.sum(kv.c.bytes)))
        newest = await connection.scalar(select(user_storage.c.kv_version))
        calls = await connection.scalar(select(func.count()).select_from(kv_calls))
    stored = await storage_of(database, SYSTEM).usage("owner")
    await database.close()
    assert {each.name: each.value for each in found} == dict.fromkeys(names, COUNT)
    assert (stored.kv_bytes, newest, calls) == (size, COUNT * len(names), COUNT * len(names))


async def test_on_a_full_disk_nothing_is_kept_by_half(tmp_path: Path, clock: ManualClock) -> None:
    database = await Database.open(with_keys(tmp_path / "symbiont.db", KEY), KEY)
    store = store_of(database, clock)
    await database.transact(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 400"))
    stored = 0
    with suppress(Unavailable):
        while stored < 100:
            await store.set(f"n{stored}", "x" * 60_000, ["t"])
            stored += 1
    assert 0 < stored < 100
    entries = await everything(store, "t")
    assert [each.name for each in entries] == [f"n{number}" for number in range(stored)]
    async with database.read() as connection:
        assert await connection.scalar(select(func.sum(kv.c.bytes))) == await connection.scalar(
            select(user_storage.c.kv_bytes)
        )
        assert await connection.scalar(select(func.count()).select_from(kv_tags)) == len(entries)
    await database.close()


async def test_nothing_of_a_removed_user_is_left(database: Database, clock: ManualClock) -> None:
    ada = await users.add(database, "ada", 0)
    for user_id in (ada, "owner"):
        await store_of(database, clock, user_id).set("n", 1, ["t"])
    await database.transact(lambda connection: users.remove(connection, ada, 1))
    await delete_rows(database, ada)
    async with database.read() as connection:
        for table in (kv, kv_tags, user_storage):
            rows = await connection.execute(select(table.c.user_id))
            assert [row.user_id for row in rows] == ["owner"]
    assert len(await everything(store_of(database, clock))) == 1
