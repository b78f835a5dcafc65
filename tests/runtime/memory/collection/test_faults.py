"""What a collection acknowledged survives every fault, nothing is half written, and errors are reported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from dslc.blocks.variant import Variant
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.memory.collection.store import CollectionStore
from runtime.memory.errors import StoreError
from runtime.search.entry import EntryFilter
from runtime.search.question import Question
from tests.clocks import until
from tests.databases import migrated
from tests.lanes import LONG
from tests.runtime.daemon.proxy import Proxy
from tests.runtime.memory.collection.conftest import declared
from tests.runtime.memory.collection.pushing import AT_ONCE, chunk
from tests.runtime.memory.opened import open_memory
from tests.runtime.memory.texts import WHEN, fact

COUNT = 3_000
KILLED_AFTER = 300


@LONG
async def test_a_push_that_is_killed_has_kept_what_it_said_and_nothing_half(
    database_url: str, master_key: MasterKey
) -> None:
    command = [sys.executable, "-m", "tests.runtime.memory.collection.pushing", database_url, str(COUNT)]
    said = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said = int(line)
            if said >= KILLED_AFTER:
                break
        process.kill()
        said = max([said, *map(int, process.stdout.read().split())])
    assert said < COUNT
    database = await Database.open(database_url, master_key)
    store = CollectionStore(declared().name, database)
    ((name, _, kept, *_),) = await store.counts()
    assert (name, kept % AT_ONCE) == ("reviewer", 0)
    assert said <= kept <= said + AT_ONCE
    assert (await store.verify())[1] == ()
    again = await store.upsert([chunk(number) for number in range(said + 2 * AT_ONCE)])
    assert (again.skipped, len(again.inserted), again.updated) == (kept, said + 2 * AT_ONCE - kept, ())
    assert (await store.verify())[1] == ()
    await store.close()
    await database.close()


async def test_a_full_disk_is_said_and_what_was_kept_is_there(tmp_path: Path, master_key: MasterKey) -> None:
    database = await Database.open(migrated(tmp_path / "symbiont.db"), master_key)
    store = CollectionStore(declared().name, database)
    await store.upsert([fact("Before")])
    # SQLite's own limit fails like a full disk, with SQLITE_FULL.
    pages = await database.transact(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
    await database.transact(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages + 400}").scalar_one())
    with pytest.raises(StoreError, match="full") as caught:
        await store.upsert([chunk(number) for number in range(COUNT)])
    assert isinstance(caught.value, Unavailable)
    assert not caught.value.fatal
    ((_, _, kept, *_),) = await store.counts()
    assert 1 < kept < COUNT
    assert (await store.verify())[1] == ()
    # Room is made outside the database, as on a disk.
    await database._shield(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 1073741823").scalar_one())
    await until(lambda: database.outage.problem is None)
    done = await store.upsert([chunk(number) for number in range(kept + 10)])
    assert (len(done.inserted), done.skipped) == (11, kept - 1)
    await store.close()
    await database.close()


@LONG
async def test_a_postgresql_that_goes_away_is_said_and_is_used_again_when_it_is_back(
    postgres_url: str, master_key: MasterKey, tmp_path: Path
) -> None:
    proxy = Proxy(postgres_url)
    database = await Database.open(proxy.url, master_key)
    block = declared(embedding=Variant(name="hashing"))
    memory = await open_memory(block, tmp_path, index_folder=tmp_path, database=database)
    store = memory.store
    assert isinstance(store, CollectionStore)
    await memory.upsert([fact("The server is walnut")])
    question = Question(text="walnut", now=WHEN, wanted=EntryFilter(agent="reviewer"))
    assert len((await memory.search(question)).hits) == 1

    pushing = asyncio.create_task(store.upsert([chunk(number) for number in range(COUNT)]))
    while len(await store.parts()) < 2:
        await asyncio.sleep(0)
    proxy.cut()
    for work in (pushing, store.append([fact()]), store.counts(), anext(store.scan())):
        with pytest.raises(StoreError, match="is not available at the moment"):
            await work
    assert [problem.severity for problem in await store.ready()] == ["error"]
    found = await memory.search(question)
    assert found.hits[0].item.text == "The server is walnut"
    assert "is not available at the moment" in " ".join(found.notes)

    proxy.reconnect()
    await until(lambda: database.outage.problem is None)
    again = await store.upsert([chunk(number) for number in range(COUNT)])
    assert again.skipped > 0
    assert again.skipped + len(again.inserted) == COUNT
    assert (await store.verify())[1] == ()
    assert await store.ready() == ()
    await memory.close()
    await database.close()
    proxy.close()
