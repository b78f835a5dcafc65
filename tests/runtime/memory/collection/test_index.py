"""The index of a collection is sealed like the collection, and is used again after a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.api.admin.readiness import _index
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.drivers import sqlite
from runtime.memory.indexing.index_file import index_file
from runtime.memory.open_memory import OpenMemory
from runtime.search.embedding.hashing import HashingEmbedder
from runtime.search.entry import EntryFilter
from runtime.search.question import Question
from tests.clocks import ManualClock, until
from tests.databases import migrated
from tests.runtime.memory.collection.conftest import declared
from tests.runtime.memory.opened import open_memory
from tests.runtime.memory.texts import WHEN, fact
from tests.runtime.search.index.qdrant.qdrant_server import QdrantServer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HASHING = Variant(name="hashing")


@asynccontextmanager
async def opened(root: Path, clock: ManualClock, block: Memory | None = None) -> AsyncIterator[OpenMemory]:
    """Open a root's collection memory and its index as a start does."""
    database = await Database.open(root / "symbiont.db", MasterKey(b"m" * 32))
    try:
        memory = await open_memory(
            block or declared(embedding=HASHING), root, index_folder=root / "index", clock=clock, database=database
        )
        try:
            yield memory
        finally:
            await memory.close()
    finally:
        await database.close()


async def texts(memory: OpenMemory, text: str) -> list[str]:
    found = await memory.search(Question(text=text, now=WHEN, wanted=EntryFilter(agent="reviewer")))
    return [hit.item.text for hit in found.hits]


def stored(root: Path) -> bytes:
    """Return every byte of the root."""
    return b"\n".join(path.read_bytes() for path in root.rglob("*") if path.is_file()).lower()


async def test_no_file_of_the_root_holds_a_word_of_a_collection(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as memory:
        await memory.store.append([fact("Alice keeps the okapi combination"), fact("The other is quetzalcoatl")])
        assert (await texts(memory, "okapi"))[0] == "Alice keeps the okapi combination"
        open_files = stored(tmp_path)
    for word in (b"okapi", b"quetzalcoatl", b"combin"):
        assert word not in open_files
        assert word not in stored(tmp_path)


async def test_no_vector_is_made_again_at_the_next_start(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[str] = []
    embed = HashingEmbedder.embed

    async def counted(self: HashingEmbedder, texts: Sequence[str]) -> NDArray[np.float32]:
        embedded.extend(texts)
        return await embed(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed", counted)
    items = [fact(f"The okapi number {number}") for number in range(100)]
    async with opened(tmp_path, clock) as memory:
        await memory.store.append(items)
        await memory.sync()
        assert await memory.embed() == 100
    assert len(embedded) == 100
    async with opened(tmp_path, clock) as memory:
        assert (await memory.index_stats()).embedded == 100
        await memory.sync()
        assert await memory.embed() == 0
        assert len(await texts(memory, "the okapi number 7")) == 10
    assert len(embedded) == 101  # and the question


async def test_what_a_markdown_memory_is_searched_by_is_left_as_it_is(tmp_path: Path, clock: ManualClock) -> None:
    """The index of a memory in files contains text in clear too; opening a collection must not overwrite it."""
    database = await Database.open(migrated(tmp_path / "symbiont.db"), MasterKey(b"m" * 32))
    block = Memory(name="notes", path="agents", embedding=HASHING)
    memory = await open_memory(block, tmp_path, index_folder=tmp_path / "index", clock=clock, database=database)
    await memory.store.append([fact("The walnut")])
    assert await texts(memory, "walnut") == ["The walnut"]
    file = index_file(memory.store, tmp_path / "index")
    await memory.close()
    await database.close()
    before = file.read_bytes()
    async with opened(tmp_path, clock):
        pass
    assert file.read_bytes() == before


async def test_what_stays_here_of_an_index_on_a_server_is_sealed_too(tmp_path: Path, clock: ManualClock) -> None:
    server = QdrantServer()
    await server.start()
    try:
        choice = Variant(name="qdrant", options={"url": server.url, "exact": True})
        async with opened(tmp_path, clock, declared(embedding=HASHING, index=choice)) as memory:
            await memory.store.append([fact("Alice keeps the okapi combination")])
            assert await texts(memory, "okapi") == ["Alice keeps the okapi combination"]
            assert "are not encrypted" in (await _index("notes", memory)).text
            assert b"okapi" not in stored(tmp_path)
        assert b"okapi" not in stored(tmp_path)
    finally:
        await server.close()


async def test_the_tags_and_sources_of_what_was_forgotten_leave_the_database_and_its_log(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "EMPTY_SECONDS", 0.05)
    async with opened(tmp_path, clock) as memory:
        (gone, _) = await memory.store.append(
            [fact("One", tags=("tagaxolotl",), source_uri="file:///okapi.md"), fact("Two", tags=("tagbasalt",))]
        )
        assert b"tagaxolotl" in stored(tmp_path)
        await memory.forget(gone.memory_id, "reviewer")
        await until(lambda: not any(word in stored(tmp_path) for word in (b"tagaxolotl", b"okapi")))
        assert b"tagbasalt" in stored(tmp_path)
