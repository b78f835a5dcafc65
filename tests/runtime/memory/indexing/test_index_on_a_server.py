"""A memory with an index on a Qdrant server: it stores items whatever happens to the server, and reports errors."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime import extras
from runtime.api.admin.readiness import _index
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.memory.indexing.index_file import index_file, index_name
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store import Store
from runtime.search.entry import EntryFilter
from runtime.search.errors import IndexFailed
from runtime.search.question import Question
from tests.clocks import ManualClock, until
from tests.databases import migrated
from tests.runtime.memory.opened import open_memory
from tests.runtime.memory.test_open_memory import ask, texts
from tests.runtime.memory.texts import WHEN, fact
from tests.runtime.search.index.qdrant.qdrant_server import QdrantServer, answering

HASHING = Variant(name="hashing")


@pytest.fixture
async def server() -> AsyncIterator[QdrantServer]:
    started = QdrantServer()
    await started.start()
    yield started
    await started.close()


def block(url: str, **fields: Any) -> Memory:
    options = {"url": url, "exact": True, "timeout": timedelta(seconds=2)}
    return Memory(
        name="notes", path="agents", embedding=HASHING, index=Variant(name="qdrant", options=options), **fields
    )


async def opened(server: QdrantServer, root: Path, clock: ManualClock) -> OpenMemory:
    return await open_memory(block(server.url), root, index_folder=root / "index", clock=clock)


@pytest.fixture
async def memory(server: QdrantServer, tmp_path: Path, clock: ManualClock) -> AsyncIterator[OpenMemory]:
    made = await opened(server, tmp_path, clock)
    yield made
    await made.close()


def name_of(memory: OpenMemory) -> str:
    return index_name(memory.store)


async def test_what_is_remembered_is_found_and_lies_on_the_server_redacted(
    memory: OpenMemory, server: QdrantServer
) -> None:
    key = "AKIA" + "Z7K2QX5PLM3NVB8T"
    await memory.store.append([fact("The staging server is walnut"), fact(f"The key is {key}")])
    assert texts(await ask(memory, "staging server"))[0] == "The staging server is walnut"
    held = await server.points(name_of(memory))
    assert len(held) == 2
    assert key not in str(held)
    assert {said["agent_id"] for said in held.values()} == {"reviewer"}


async def test_what_is_removed_is_gone_from_the_server(memory: OpenMemory, server: QdrantServer) -> None:
    await memory.store.append([fact("The walnut")])
    await ask(memory, "walnut")
    await memory.remove("reviewer")
    assert await server.points(name_of(memory)) == {}


async def test_while_the_server_is_away_saving_goes_on_and_searching_says_why_it_does_not(
    memory: OpenMemory, server: QdrantServer
) -> None:
    await memory.store.append([fact("The walnut")])
    assert texts(await ask(memory, "walnut")) == ["The walnut"]
    await server.stop()
    await memory.store.append([fact("The hazel")])
    with pytest.raises(IndexFailed) as failed:
        await ask(memory, "hazel")
    assert "Qdrant at 127.0.0.1" in failed.value.line()
    assert failed.value.line() in memory.problems
    with pytest.raises(IndexFailed):
        await memory.reindex()
    await server.start()
    assert texts(await ask(memory, "hazel"))[0] == "The hazel"
    assert not memory.problems
    assert len(await server.points(name_of(memory))) == 2


async def test_a_daemon_says_soon_that_the_server_is_away_and_goes_on_by_itself(
    server: QdrantServer, tmp_path: Path, clock: ManualClock
) -> None:

    server.fault = answering(503, "starting")
    memory = await opened(server, tmp_path, clock)
    keeping = asyncio.create_task(memory.indexer.queue.keep())
    try:
        await until(lambda: memory.problems != ())
        assert "answered 503: starting" in memory.problems[0]
        await memory.store.append([fact("The walnut")])
        await memory.sync()
        server.fault = None
        assert (await memory.sync()).problems == ()
        await until(lambda: clock.sleepers == 1)
        clock.advance(60)
        await until(lambda: memory.problems == ())
        await until(lambda: memory.indexer.queue.problem is None)
        async with asyncio.timeout(30):
            while len(await server.points(name_of(memory))) < 1:
                await asyncio.sleep(0.01)
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
        await memory.close()


async def test_an_index_is_changed_in_the_block_and_built_from_the_store(
    server: QdrantServer, tmp_path: Path, clock: ManualClock
) -> None:
    embedded = block(server.url).model_copy(update={"index": None})
    for declared in (embedded, block(server.url), embedded):
        memory = await open_memory(declared, tmp_path, index_folder=tmp_path / "index", clock=clock)
        if declared is embedded and not await memory.store.agents():
            await memory.store.append([fact("The walnut"), fact("The hazel")])
        found = await memory.search(Question(text="walnut", now=WHEN, wanted=EntryFilter(agent="reviewer")))
        assert found.hits[0].item.text == "The walnut"
        assert found.notes == ()
        name = name_of(memory)
        await memory.close()
    assert len(await server.points(name)) == 2
    assert len(list((tmp_path / "index").glob("*.db"))) == 1


async def test_where_nobody_searches_no_server_is_asked(
    server: QdrantServer, tmp_path: Path, clock: ManualClock
) -> None:
    memory = await open_memory(block(server.url), tmp_path, index_folder=None, clock=clock)
    await memory.store.append([fact("The walnut")])
    assert texts(await ask(memory, "walnut")) == ["The walnut"]
    await memory.close()
    assert server.asked == []


async def test_without_its_client_the_default_index_takes_its_place_and_says_what_to_install(
    server: QdrantServer, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    memory = await opened(server, tmp_path, clock)
    await memory.store.append([fact("The walnut")])
    assert texts(await ask(memory, "walnut")) == ["The walnut"]
    (problem,) = memory.problems
    assert problem.startswith("the index is the default one: the index qdrant needs its client")
    assert extras.install("qdrant") in problem
    await memory.close()


@pytest.mark.parametrize(
    ("identity", "slug"),
    [
        ("markdown:/srv/data/Team Notes", "team_notes"),
        ("collection:1a2b/default", "default"),
        ("markdown:/data/Übergänge/", "berg_nge"),
        ("markdown:/", "memory"),
        (f"markdown:/{'x' * 300}", "x" * 40),
        ("records:/日本", "memory"),
    ],
)
def test_an_index_is_called_what_a_server_can_call_it(identity: str, slug: str) -> None:
    store = cast("Store", SimpleNamespace(identity=identity))
    name = index_name(store)
    assert name.rpartition("_")[0] == slug
    assert name.isascii()
    assert len(name) <= 49
    other = cast("Store", SimpleNamespace(identity=f"{identity}x"))
    assert index_name(other) != name


async def test_files_of_one_path_on_two_machines_have_an_index_each(
    tmp_path: Path, master_key: MasterKey, server: QdrantServer, clock: ManualClock
) -> None:
    held = {}
    for machine in ("one", "two"):
        database = await Database.open(migrated(tmp_path / f"{machine}.db"), master_key)
        index = tmp_path / machine
        made = await open_memory(block(server.url), tmp_path, index_folder=index, clock=clock, database=database)
        await made.store.append([fact(f"The walnut of {machine}")])
        await ask(made, "walnut")
        await made.close()
        name = index_name(made.store, database)
        held[name] = len(await server.points(name))
        await database.close()
    assert list(held.values()) == [1, 2]


def test_each_kind_of_index_has_a_file_of_its_own(tmp_path: Path) -> None:
    store = cast("Store", SimpleNamespace(identity="markdown:/data"))
    files = [index_file(store, tmp_path, choice) for choice in (None, Variant(name="embedded"), Variant(name="qdrant"))]
    assert files[0] == files[1] != files[2]
    assert files[2].name.endswith(".qdrant.db")


async def test_readiness_counts_items_without_token_bits(tmp_path: Path) -> None:
    memory = await open_memory(Memory(name="notes", path="agents", embedding=HASHING), tmp_path, index_folder=None)
    await memory.store.append([fact("The walnut")])
    await ask(memory, "walnut")
    assert (await _index("notes", memory)).text == "1 entry"
    assert memory.embedder is not None
    memory.embedder.token_bits = "1"
    assert (await _index("notes", memory)).text == "1 entry, 1 without token bits yet"
    await memory.close()


async def test_readiness_says_whether_the_server_answers(memory: OpenMemory, server: QdrantServer) -> None:
    async def row() -> tuple[str, str]:

        check = await _index("notes", memory)
        return check.status, check.text

    await memory.store.append([fact("The walnut")])
    await ask(memory, "walnut")
    status, text = await row()
    assert status == "GREEN"
    assert "1 entry" in text
    assert f"Qdrant at 127.0.0.1:{server.url.rpartition(':')[2]} answers" in text
    await server.stop()
    status, text = await row()
    assert status == "RED"
    assert "the connection was refused" in text
    await server.start()
    assert (await row())[0] == "GREEN"
