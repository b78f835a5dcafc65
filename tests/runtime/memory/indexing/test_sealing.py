"""A sealed index gets another key when a user is removed, and keeps its entries and vectors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dslc.blocks.variant import Variant
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.memory.indexing.index_file import index_file
from runtime.memory.indexing.sealing import reseal_indexes
from runtime.memory.open_memory import OpenMemory
from runtime.search.entry import EntryFilter
from runtime.search.index.embedded.errors import DamagedIndex
from runtime.search.index.embedded.index_file import IndexFile, reseal
from runtime.search.question import Question
from tests.clocks import ManualClock
from tests.runtime.memory.collection.conftest import declared
from tests.runtime.memory.opened import open_memory
from tests.runtime.memory.texts import WHEN, fact

MASTER = MasterKey(b"m" * 32)
BLOCK = declared(embedding=Variant(name="hashing"))


@pytest.fixture
async def database(tmp_path: Path) -> Database:
    return await Database.open(tmp_path / "symbiont.db", MASTER)


async def open_in(folder: Path, database: Database, clock: ManualClock) -> OpenMemory:
    return await open_memory(BLOCK, folder, index_folder=folder / "index", clock=clock, database=database)


async def texts(memory: OpenMemory, text: str) -> list[str]:
    found = await memory.search(Question(text=text, now=WHEN, wanted=EntryFilter(agent="reviewer")))
    return [hit.item.text for hit in found.hits]


async def test_an_older_copy_of_the_file_does_not_open_after_a_removal(
    tmp_path: Path, database: Database, clock: ManualClock
) -> None:
    memory = await open_in(tmp_path, database, clock)
    await memory.store.append([fact("Ada hides the okapi"), fact("Bob paints the quagga")])
    assert "Bob paints the quagga" in await texts(memory, "quagga")
    await memory.embed()
    file = index_file(memory.store, tmp_path / "index")
    database.keys.ensure("ada")
    for name in (file.name, f"{file.name}-wal"):
        if (file.parent / name).exists():
            shutil.copy(file.parent / name, tmp_path / name)
    database.keys.forget("ada", 1)
    await reseal_indexes(database.keys, [memory.indexer])
    assert database.keys.retired == []
    assert (await memory.index_stats()).embedded == 2
    assert "Bob paints the quagga" in await texts(memory, "quagga")
    await memory.store.append([fact("Carol counts the kiwi")])
    assert "Carol counts the kiwi" in await texts(memory, "kiwi")
    keys = memory.store.index_keys
    await memory.close()
    copy = tmp_path / file.name
    assert not reseal(copy, keys)
    with pytest.raises(DamagedIndex, match="sealed with another key"):
        IndexFile(copy, keys[0])
    again = await open_in(tmp_path, database, clock)
    assert again.indexer.index.rebuilt == 0
    assert "Bob paints the quagga" in await texts(again, "quagga")
    await again.close()
    await database.close()


async def test_a_file_that_was_closed_during_the_removal_is_sealed_again_when_it_is_opened(
    tmp_path: Path, database: Database, clock: ManualClock
) -> None:
    memory = await open_in(tmp_path, database, clock)
    await memory.store.append([fact("Bob paints the quagga")])
    await memory.sync()
    file, before = index_file(memory.store, tmp_path / "index"), memory.store.index_keys
    await memory.close()
    database.keys.ensure("ada")
    database.keys.forget("ada", 1)
    again = await open_in(tmp_path, database, clock)
    assert again.indexer.index.rebuilt == 0
    assert (await again.index_stats()).entries == 1
    await again.close()
    with pytest.raises(DamagedIndex):
        IndexFile(file, before[0])
    await database.close()
