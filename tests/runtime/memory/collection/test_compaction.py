"""A compaction that is interrupted, has no room or runs twice at once loses nothing and stores nothing twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from dslc.blocks.variant import Variant
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.schema import items
from runtime.memory.collection.store import CollectionStore
from runtime.memory.errors import StoreError
from runtime.memory.item import Item
from runtime.search.entry import EntryFilter
from runtime.search.question import Question
from tests.clocks import until
from tests.lanes import LONG
from tests.runtime.memory.collection.conftest import declared
from tests.runtime.memory.opened import open_memory
from tests.runtime.memory.texts import WHEN, item

ENTRIES = 1_500
FACTS = 3
"""Facts, one in each entry."""


def entry(number: int) -> Item:
    """Return an entry with its own fact, and one that other entries contain too."""
    text = f"Work {number}\n- nothing\n- [fact] Fact {number}\n- [procedure] Shared {number % FACTS}"
    return item(text, timestamp=WHEN + timedelta(seconds=number))


@asynccontextmanager
async def opened(url: str, key: MasterKey) -> AsyncIterator[tuple[CollectionStore, Database]]:
    database = await Database.open(url, key)
    store = CollectionStore(declared().name, database)
    try:
        yield store, database
    finally:
        await store.close()
        await database.close()


async def counted(database: Database) -> dict[str, int]:
    """Return how many items there are of each type."""
    query = select(items.c.memory_type, func.count()).group_by(items.c.memory_type)
    async with database.read() as connection:
        return {row.memory_type: row[1] for row in await connection.execute(query)}


async def is_whole(store: CollectionStore) -> None:
    """Assert that the bullets of each entry are there once, or else the entry itself."""
    found = [one async for one in store.scan()]
    lasting = Counter(one.text for one in found if one.memory_type != "episodic")
    assert set(lasting.values()) <= {1}
    entries = {one.text for one in found if one.memory_type == "episodic"}
    for number in range(ENTRIES):
        there = f"Fact {number}" in lasting and f"Shared {number % FACTS}" in lasting
        assert there or entry(number).text in entries
    assert (await store.verify())[1] == ()


async def all_done(store: CollectionStore) -> None:
    await is_whole(store)
    assert await store.compact("reviewer", older_than=date.max) == (0, 0, ())
    found = Counter([one.memory_type async for one in store.scan()])
    assert found == {"semantic": ENTRIES, "procedural": FACTS}


@LONG
@pytest.mark.parametrize("reached", ["facts are put", "entries are deleted"])
async def test_a_compaction_that_is_killed_loses_nothing_and_is_finished_by_the_next(
    database_url: str, master_key: MasterKey, reached: str
) -> None:
    async with opened(database_url, master_key) as (store, database):
        await store.append(map(entry, range(ENTRIES)))
        command = [sys.executable, "-m", "tests.runtime.memory.collection.compacting", database_url]
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                there = await counted(database)
                if "semantic" in there if reached == "facts are put" else there.get("episodic", 0) < ENTRIES:
                    process.kill()
            assert process.returncode == -9
    async with opened(database_url, master_key) as (store, database):
        await is_whole(store)
        await store.compact("reviewer", older_than=date.max)
        await all_done(store)


@LONG
async def test_a_compaction_on_a_full_disk_says_so_and_is_finished_when_there_is_room(
    tmp_path: Path, master_key: MasterKey
) -> None:
    async with opened(str(tmp_path / "symbiont.db"), master_key) as (store, database):
        await store.append(map(entry, range(ENTRIES)))
        # SQLite's own limit fails like a full disk, with SQLITE_FULL.
        pages = await database.transact(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
        await database.transact(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages + 100}").scalar_one())
        with pytest.raises(StoreError, match="full"):
            await store.compact("reviewer", older_than=date.max)
        assert (await counted(database))["episodic"] == ENTRIES
        await is_whole(store)
        # Room is made outside the database, as on a disk.
        await database._shield(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 1073741823").scalar_one())
        await until(lambda: database.outage.problem is None)
        await store.compact("reviewer", older_than=date.max)
        await all_done(store)


@LONG
async def test_daemons_that_compact_and_write_at_once_put_everything_once(
    postgres_url: str, master_key: MasterKey, tmp_path: Path
) -> None:
    block = declared(embedding=Variant(name="hashing"))
    databases = [await Database.open(postgres_url, master_key) for _ in range(2)]
    one, two = [
        await open_memory(block, tmp_path / str(n), index_folder=tmp_path / str(n), database=database)
        for n, database in enumerate(databases)
    ]
    now = WHEN + timedelta(days=400)

    async def write(begin: int, end: int) -> None:
        for number in range(begin, end, 100):
            await (one, two)[number // 100 % 2].store.append(map(entry, range(number, min(number + 100, end))))

    await write(0, 1_000)
    work = [write(1_000, ENTRIES), *(memory.store.compact("reviewer", older_than=date.max) for memory in (one, two))]
    await asyncio.gather(*work)
    await one.compact("reviewer", now)
    assert isinstance(two.store, CollectionStore)
    await two.store.compact("reviewer", older_than=date.max)
    await all_done(two.store)
    for memory in (one, two):
        question = Question(text="Fact 1234", now=now, wanted=EntryFilter(agent="reviewer"), limit=3)
        assert (await memory.search(question)).hits[0].item.text == "Fact 1234"
        assert (await memory.index_stats()).entries == ENTRIES + FACTS
        await memory.close()
    for database in databases:
        await database.close()
