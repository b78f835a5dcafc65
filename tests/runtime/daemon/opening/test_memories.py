"""A program only sets the policy of its memories; stores, indexes and embeddings belong to the pool and open once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.source import Source
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.daemon.opening.memories import MemoryOpener, ResourcePools
from runtime.daemon.program.generation import Generation, build
from runtime.database.connection import Database
from runtime.errors import UsageError
from runtime.memory.item import Item
from runtime.memory.store import Store
from runtime.search.embedding import default_embedding
from runtime.search.question import Question
from runtime.secrets.backend import SecretContext
from runtime.tasks.index import TaskItems
from tests.databases import migrated
from tests.runtime.memory.texts import fact

OPENAI = 'embedding openai { url "http://127.0.0.1:1/v1" model "m" api_key "secret://env/EMBEDDING_KEY" }'
QDRANT = 'index qdrant { url "http://127.0.0.1:1" api_key "secret://env/QDRANT_KEY" }'
REMOTE = (
    'store records { remote contextstream { url "secret://env/STREAM_URL" api_key "secret://env/STREAM_KEY" '
    'project "neuronx" } }'
)
KEY = "sk-0123456789-very-secret"


@dataclass
class World:
    """Everything from which a generation is built, and the running generation."""

    opening: MemoryOpener
    environ: dict[str, str]
    running: Generation | None = None

    async def load(self, text: str) -> Generation:
        """Build the next generation as a reload does, and retire the one before."""
        program = analyse([Source("m.symbiont", text.encode())], Catalog.installed()).program
        assert program is not None
        before = self.running
        number = before.number + 1 if before else 1
        self.running = await build(number, program, before, opening=self.opening)
        for memory in self.running.memories.values():
            await memory.activate()
        if before is not None:
            await before.retire()
        return self.running


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    database = await Database.open(migrated(tmp_path / "symbiont.db"), MasterKey(bytes(32)))
    environ: dict[str, str] = {}
    context = SecretContext(environ, tmp_path, database, database.keys, SYSTEM)
    made = World(MemoryOpener(tmp_path, tmp_path / "index", context, ResourcePools()), environ)
    yield made
    if made.running is not None:
        await made.running.retire()
    assert opened(made) == [0, 0, 0], "everything was given back"
    await database.close()


def opened(world: World) -> list[int]:
    """Return the number of open stores, indexes and embeddings, without those of the search of tasks."""
    of = world.opening.pools
    tasks = TaskItems(world.opening.context.database, SYSTEM).identity
    return [
        sum(key != tasks for key in of.stores._entries),
        sum(tasks not in cast("tuple[object]", key) for key in of.indexers._entries),
        sum(default_embedding() not in cast("tuple[object]", key) for key in of.embedders._entries),
    ]


def memory(settings: str, name: str = "notes") -> str:
    return f'memory {name} {{\n    path "{name}"\n    {settings}\n}}\n'


async def test_other_weights_and_another_retention_open_nothing_twice(world: World) -> None:
    first = (await world.load(memory("embedding hashing"))).memories["notes"]
    search = "search { vector_weight 0.5 keyword_weight 0.5 }"
    second = (await world.load(memory(f"embedding hashing retention 7d {search}"))).memories["notes"]
    assert second is not first
    assert (second.store, second.indexer) == (first.store, first.indexer)
    assert second.block.retention.days == 7
    assert opened(world) == [1, 1, 1]


async def test_the_index_that_is_meant_where_none_is_named_is_opened_once(world: World) -> None:
    first = (await world.load(memory("embedding hashing"))).memories["notes"]
    second = (await world.load(memory("embedding hashing index embedded"))).memories["notes"]
    assert second.indexer is first.indexer


async def test_another_embedding_keeps_the_store_and_the_index_open(world: World) -> None:
    first = (await world.load(memory("embedding hashing"))).memories["notes"]
    await first.store.append([fact("The walnut")])
    await first.sync()
    assert await first.embed() == 1
    second = (await world.load(memory("embedding hashing { dimension 64 }"))).memories["notes"]
    assert (second.store, second.indexer) == (first.store, first.indexer)
    stats = await second.index_stats()
    assert (stats.entries, stats.embedded) == (1, 0)
    assert await second.embed() == 1
    assert (await second.index_stats()).dimension == 64
    assert opened(world) == [1, 1, 1]


async def test_memories_with_the_same_embedding_share_one(world: World) -> None:
    text = memory("embedding hashing", "one") + memory("embedding hashing", "two")
    await world.load(text + memory("embedding hashing { dimension 64 }", "three"))
    assert opened(world) == [3, 3, 2]


async def test_a_secret_of_an_embedding_is_resolved_and_keeps_its_last_value(world: World) -> None:
    world.environ["EMBEDDING_KEY"] = KEY
    generation = await world.load(memory(OPENAI))
    assert generation.memories["notes"].embedding == "openai"
    assert generation.warnings == ()
    del world.environ["EMBEDDING_KEY"]
    generation = await world.load(memory(f"{OPENAI} retention 7d"))
    assert generation.memories["notes"].embedding == "openai"
    assert len(generation.warnings) == 1
    assert "EMBEDDING_KEY" in generation.warnings[0]
    assert "last value is still used" in generation.warnings[0]


async def test_a_changed_secret_opens_the_embedding_again_and_nothing_else(world: World) -> None:
    world.environ["EMBEDDING_KEY"] = KEY
    first = (await world.load(memory(OPENAI))).memories["notes"]
    same = (await world.load(memory(f"{OPENAI} retention 7d"))).memories["notes"]
    world.environ["EMBEDDING_KEY"] = KEY[::-1]
    other = (await world.load(memory(OPENAI))).memories["notes"]
    assert (other.store, other.indexer) == (first.store, first.indexer)
    assert first._embedder is same._embedder
    assert first._embedder is not other._embedder


async def test_a_changed_secret_opens_the_index_again_and_nothing_else(world: World) -> None:
    world.environ["QDRANT_KEY"] = KEY
    first = (await world.load(memory(f"{QDRANT} embedding hashing"))).memories["notes"]
    same = (await world.load(memory(f"{QDRANT} embedding hashing retention 7d"))).memories["notes"]
    world.environ["QDRANT_KEY"] = KEY[::-1]
    other = (await world.load(memory(f"{QDRANT} embedding hashing"))).memories["notes"]
    assert same.indexer is first.indexer
    assert other.indexer is not first.indexer
    assert (other.store, other._embedder) == (first.store, first._embedder)


async def test_an_embedding_without_its_secret_is_off_and_all_else_runs(world: World) -> None:
    generation = await world.load(memory(OPENAI) + memory("embedding hashing", "other"))
    notes, other = generation.memories["notes"], generation.memories["other"]
    assert (notes.embedding, other.embedding) == (None, "hashing")
    assert notes.embedding_problem is not None
    assert "EMBEDDING_KEY" in notes.embedding_problem
    assert any("notes" in warning and "EMBEDDING_KEY" in warning for warning in generation.warnings)
    await notes.store.append([fact("The walnut")])
    found = await notes.search(Question(text="walnut", now=fact().timestamp))
    assert [hit.item.text for hit in found.hits] == ["The walnut"]


async def test_secrets_of_variants_within_variants_are_resolved(world: World) -> None:
    world.environ |= {"STREAM_URL": "http://127.0.0.1:1/secret-path", "STREAM_KEY": KEY}
    generation = await world.load(memory(f"{REMOTE}\n    embedding hashing"))
    store = generation.memories["notes"].store
    assert await store.ready() == ()
    assert generation.warnings == ()
    shown = f"{generation.resolution!r} {generation.memories['notes']._options!r} {generation.warnings}"
    assert KEY not in shown
    assert "secret-path" not in shown


async def test_a_remote_without_its_secret_is_off_and_records_are_kept(world: World) -> None:
    world.environ["STREAM_URL"] = "http://127.0.0.1:1/"
    generation = await world.load(memory(f"{REMOTE}\n    embedding hashing"))
    store = generation.memories["notes"].store
    assert len(await kept(store)) == 1
    assert [problem.severity for problem in await store.ready()] == ["warning"]
    assert any("STREAM_KEY" in reason for reason in generation.resolution.problems.values())
    world.environ["STREAM_KEY"] = KEY
    again = await world.load(memory(f"{REMOTE}\n    embedding hashing"))
    assert again.memories["notes"].store is store, "other options open no store twice"
    assert "remote" not in "".join(problem.message for problem in await store.ready() if "off" in problem.message)


async def kept(store: Store) -> tuple[Item, ...]:
    return await store.append([fact("The walnut")])


async def test_a_generation_that_cannot_be_built_gives_back_what_it_took(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = await world.load(memory("embedding hashing"))
    answers = iter([True, False])

    async def claim() -> bool:
        return next(answers)

    monkeypatch.setattr(world.opening.context.database, "claim", claim)
    with pytest.raises(UsageError, match="another daemon uses this database"):
        await world.load(memory("embedding hashing", "one") + memory("embedding hashing", "two"))
    assert world.running is good
    assert opened(world) == [1, 1, 1]


async def test_what_a_run_works_on_stays_open_until_it_is_done(world: World) -> None:
    first = await world.load(memory("embedding hashing"))
    async with first.pinned():
        await world.load(memory("embedding hashing", "other"))
        assert opened(world) == [2, 2, 1]
        assert len(await kept(first.memories["notes"].store)) == 1
    assert opened(world) == [1, 1, 1]


SUMMARIES = """summarize { model writer }"""
WRITER = """model writer {
    service openai {
        url     "http://127.0.0.1:9"
        model   "small"
        api_key "secret://env/WRITER_KEY"
        headers { X-Team "core" X-Auth "secret://env/TEAM_KEY" }
    }
}
"""


async def test_summaries_are_written_by_the_service_of_the_model_that_a_memory_names(world: World) -> None:
    world.environ |= {"WRITER_KEY": KEY, "TEAM_KEY": KEY}
    found = (await world.load(memory(SUMMARIES) + WRITER)).memories["notes"]
    assert found.problems == ()
    assert found.summarizer is not None
    assert (found.summarizer.name, found.summarizer.model) == ("openai", "small")


async def test_two_memories_that_name_one_model_share_its_service(world: World) -> None:
    world.environ |= {"WRITER_KEY": KEY, "TEAM_KEY": KEY}
    text = memory(SUMMARIES, "one") + memory(SUMMARIES, "two") + WRITER
    memories = (await world.load(text)).memories
    one, two = memories["one"].summarizer, memories["two"].summarizer
    assert one is not None
    assert two is not None
    assert one._first.model is two._first.model


async def test_a_missing_secret_of_a_named_model_is_a_problem_of_the_memory(world: World) -> None:
    world.environ["WRITER_KEY"] = KEY
    found = (await world.load(memory(SUMMARIES) + WRITER)).memories["notes"]
    assert found.summarizer is None
    assert "TEAM_KEY" in str(found.summarizer_problem)
