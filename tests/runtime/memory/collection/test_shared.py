"""One collection in two daemons: each has its own index, and a search finds what the other wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dslc.blocks.variant import Variant
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.memory.open_memory import FoundItems, OpenMemory
from runtime.search.entry import EntryFilter
from runtime.search.question import Question
from tests.runtime.memory.collection.conftest import declared
from tests.runtime.memory.opened import open_memory
from tests.runtime.memory.texts import WHEN, fact, item

BLOCK = declared(embedding=Variant(name="hashing"))


async def opened(database: Database, folder: Path) -> OpenMemory:
    return await open_memory(BLOCK, folder, index_folder=folder / "index", database=database)


@pytest.fixture
async def both(postgres_url: str, master_key: MasterKey, tmp_path: Path) -> AsyncIterator[list[OpenMemory]]:
    """The memories of two daemons on one PostgreSQL, each with its own connections and index."""
    databases = [await Database.open(postgres_url, master_key) for _ in range(2)]
    memories = [await opened(each, tmp_path / str(number)) for number, each in enumerate(databases)]
    yield memories
    for memory in memories:
        await memory.close()
    for database in databases:
        await database.close()


async def ask(memory: OpenMemory, text: str, project: str | None = None) -> FoundItems:
    return await memory.search(Question(text=text, now=WHEN, wanted=EntryFilter(agent="reviewer", project=project)))


def texts(found: FoundItems) -> list[str]:
    return [hit.item.text for hit in found.hits]


async def test_a_search_finds_what_another_daemon_has_just_written(both: list[OpenMemory]) -> None:
    here, there = both
    assert here.store.identity == there.store.identity
    (kept,) = (await here.upsert([fact("The staging server is walnut")])).inserted
    assert texts(await ask(there, "walnut")) == [kept.text]
    await there.replace(kept.with_fields(text="The staging server is hazel", chunk_hash=""))
    assert texts(await ask(here, "hazel")) == ["The staging server is hazel"]
    assert (await here.find(kept.memory_id, "owner")) is not None
    assert (await here.find(kept.memory_id, "bob")) is None
    await here.forget(kept.memory_id, "reviewer")
    assert texts(await ask(there, "hazel walnut server")) == []


async def test_daemons_that_push_the_same_at_once_keep_it_once(both: list[OpenMemory]) -> None:
    many = [fact(f"Chunk {number}") for number in range(60)]
    done = await asyncio.gather(*(memory.upsert(many[begin:]) for begin in range(0, 30, 10) for memory in both))
    assert sum(len(each.inserted) for each in done) == 60
    assert [each.items for each in await both[0].store.counts()] == [60]  # type: ignore[attr-defined]
    assert await both[1].store.verify() == (1, ())


async def test_what_is_pushed_is_indexed_without_being_read_again(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = await opened(database, tmp_path)
    read: list[str] = []
    reading = memory.store.read

    async def noted(part: object) -> object:
        read.append(repr(part))
        return await reading(part)  # type: ignore[arg-type]

    monkeypatch.setattr(memory.store, "read", noted)
    await memory.upsert([fact(f"Chunk {number} of walnut") for number in range(700)])
    assert len((await ask(memory, "walnut")).hits) == 10
    await memory.upsert([fact("One more of walnut")])
    assert "One more of walnut" in texts(await ask(memory, "one more"))
    assert read == []
    await memory.upsert([fact("Chunk 1 of walnut", tags=("t",))])
    assert texts(await ask(memory, "chunk 1 of walnut", project="none")) == []
    assert len(read) == 1
    await memory.close()


async def test_notes_of_two_projects_are_no_neighbours(database: Database, tmp_path: Path) -> None:
    memory = await opened(database, tmp_path)
    for project, agent in (("q", "reviewer"), ("p", "other")):
        about = [item("We talked about walnut", project_id="p"), item("Lunch was good", project_id=project)]
        await memory.store.append([one.with_fields(agent_id=agent) for one in about])
    found = {}
    for agent in ("reviewer", "other"):
        question = Question(text="walnut", now=WHEN, wanted=EntryFilter(agent=agent), vector_weight=0, keyword_weight=1)
        found[agent] = texts(await memory.search(question))
    assert found == {
        "reviewer": ["We talked about walnut"],
        "other": ["We talked about walnut", "Lunch was good"],
    }
    await memory.close()
