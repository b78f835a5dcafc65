"""The content of a Qdrant server follows every write and interruption, and a collection has one owner."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_client import models

from dslc.blocks.variant import Variant
from runtime.memory.indexing.entries import entries_of
from runtime.memory.item import Item, Provenance
from runtime.memory.store_types import Part
from runtime.search.entry import EntryFilter
from runtime.search.errors import IndexFailed
from runtime.search.index import open_index
from runtime.search.index.index import Index
from runtime.search.index.qdrant.point import INDEXED, key_of
from tests.lanes import EFFORT, LONG, examples
from tests.runtime.search.index.entries import (
    DIMENSION,
    TOKEN_BITS,
    bits,
    embed,
    embed_with_tokens,
    entry,
    everything,
    near,
    said,
    talk,
    tokens,
    vectors,
)
from tests.runtime.search.index.model import Plain, filters, steps
from tests.runtime.search.index.qdrant.qdrant_server import QdrantServer
from tests.runtime.search.index.test_model import compare, compare_neighbours, take

NAME = "notes_1a2b3c4d"
ROUNDS = 5 if EFFORT > 1 else 2


@pytest.fixture
async def server() -> AsyncIterator[QdrantServer]:
    started = QdrantServer()
    await started.start()
    yield started
    await started.close()


async def opened(server: QdrantServer, **options: Any) -> Index:
    index = await open_index(Variant(name="qdrant"), None, {"url": server.url, "exact": True} | options, name=NAME)
    await index.use_model("m", DIMENSION)
    return index


@pytest.fixture
async def index(server: QdrantServer) -> AsyncIterator[Index]:
    made = await opened(server)
    yield made
    await made.close()


# Content.


async def test_payload_indexes_are_made_before_any_point(index: Index, server: QdrantServer) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two"))
    asked = [each.replace(f"/collections/{NAME}", "") for each in server.asked]
    assert asked[: 2 + len(INDEXED)] == ["GET ", "PUT ", *["PUT /index"] * len(INDEXED)]
    assert {name: info.data_type.value for name, info in server.indexed[NAME].items()} == INDEXED


async def test_a_point_carries_the_universal_payload(index: Index, server: QdrantServer) -> None:
    item = Item(
        memory_id=str(uuid4()), project_id="shop", agent_id="reviewer", user_id="bob", memory_type="semantic",
        timestamp=datetime(2025, 1, 2, 3, 4, 5, 123456, UTC), source_uri="file:///a.md", tags=("b", "a"),
        text="Zwei 日本", source_memory_ids=("x", "y"), provenance=Provenance(author="Ada", confidence=0.5),
    )  # fmt: skip
    part = Part("notes", "reviewer", "1")
    await index.put(part.name, part.agent_id, "1", entries_of(part, [(item, None)]))
    ((identity, payload),) = (await server.points(NAME)).items()
    assert identity == item.memory_id
    expected = item.model_dump(mode="json", exclude_defaults=True) | {"author": "Ada", "tags": ["a", "b"]}
    assert payload.items() >= expected.items()


async def test_the_collection_has_the_name_that_was_asked_for(server: QdrantServer) -> None:
    index = await opened(server, collection="my-notes")
    await index.put("log", "reviewer", "1", talk("one"))
    assert set(await server.points("my-notes")) == {"e0"}
    assert "my-notes" in str(await index.reachable())
    await index.close()


async def test_the_vector_stays_while_the_payload_changes(index: Index, server: QdrantServer) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", tags=("old",)))
    await embed(index)
    one, two = talk("one", "two", tags=("old",))
    await index.put("log", "reviewer", "2", [replace(one, tags=("new",), project="p", source="s", user="bob"), two])
    wanted = EntryFilter(tags_all=frozenset({"new"}), project="p", source="s", user="bob")
    assert await near(index, "one", wanted) == ["e0"]
    assert await near(index, "one", EntryFilter(tags_any=frozenset({"old"}))) == ["e1"]
    assert await index.pending(10) == []


async def test_what_is_forgotten_is_gone_from_the_server(index: Index, server: QdrantServer) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", "three"))
    await index.put("more", "reviewer", "1", [entry("x", "four", part="more")])
    await embed(index)
    await index.put("log", "reviewer", "2", talk("one", "zwei"))
    assert {name: each["text"] for name, each in (await server.points(NAME)).items()} == {
        "e0": "one", "e1": "zwei", "x": "four",
    }  # fmt: skip
    await index.drop(["log"])
    records, _ = await server.local.scroll(NAME, limit=100, with_vectors=True)
    assert {(record.payload or {}).get("memory_id") or record.payload["part_name"] for record in records} == {
        "x",
        "more",
    }
    assert "zwei" not in str(records)
    await index.clear()
    assert not await server.local.collection_exists(NAME)


@LONG
async def test_a_process_that_is_killed_leaves_what_the_next_one_can_go_on_with(
    server: QdrantServer, tmp_path: Path
) -> None:
    chance = random.Random(7)
    for _ in range(ROUNDS):
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.runtime.search.index.worker", "qdrant", tmp_path / "memory.db", server.url),
            *("5000", "a", "b", "c"), stdout=subprocess.PIPE,
        )  # fmt: skip
        assert worker.stdout is not None
        for _ in range(chance.randrange(3, 12)):
            await worker.stdout.readline()
        await asyncio.sleep(chance.random() / 20)
        worker.kill()
        await worker.wait()
        index = await open_index(Variant(name="qdrant"), None, {"url": server.url})
        try:
            await index.use_model("m", DIMENSION, TOKEN_BITS)
            await embed_with_tokens(index, 100_000)
            stats = await index.stats()
            assert stats.entries == stats.embedded == stats.tokenized == len(await server.points("memory")) > 0
            there = {one.id: bits(one.text) for one in (await everything(index)).values()}
            assert await tokens(index, *there) == list(there.values())
        finally:
            await index.close()


@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(taken=st.lists(steps.filter(lambda step: step[0] != "open"), max_size=8), wanted=filters)
async def test_any_steps_lead_to_what_the_plain_model_says(taken: list[Any], wanted: EntryFilter) -> None:
    server, plain = QdrantServer(), Plain()
    await server.start()
    index = await opened(server)
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    try:
        for number, step in enumerate(taken):
            index = await take(step, number, index, plain, None)
        await compare(index, plain, wanted)
        assert set(await server.points(NAME)) == set(plain.entries)
    finally:
        await index.close()
        await server.close()


# Several daemons, and loss of data.


async def test_a_collection_that_is_lost_is_made_again_and_its_parts_are_missing(
    index: Index, server: QdrantServer
) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed(index)
    await server.local.delete_collection(NAME)
    assert await near(index, "one") == []
    assert (await index.parts(), index.rebuilt, index.problem) == ({}, 1, None)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    assert await embed(index) == 2
    assert len(await near(index, "one")) == 2
    assert len(server.indexed[NAME]) == len(INDEXED)


async def test_two_daemons_with_one_store_have_one_collection(server: QdrantServer) -> None:
    first, second = await opened(server), await opened(server)
    try:
        await first.put("log", "reviewer", "1", talk("one", "two"))
        await embed(first)
        assert await second.put("log", "reviewer", "1", talk("one", "two")) == (0, 2, 0)
        assert await second.pending(10) == []
        await second.put("log", "reviewer", "2", talk("one", "zwei", "three"))
        assert await embed(first) == 2
        assert await near(first, "three") == await near(second, "three")
        assert len(await near(first, "three")) == 3
        await second.put("log", "reviewer", "3", talk("one"))
        assert set(await server.points(NAME)) == {"e0"}
        assert await first.parts() == {"log": "3"}
    finally:
        await first.close()
        await second.close()


async def at_batch(number: int, server: QdrantServer, instead: Callable[[], Awaitable[None]]) -> None:
    """Do something before the server does this batch of operations: the 1st of a write has its entries, the 2nd their
    links and words, the 3rd the revision of the part."""
    batches = 0

    async def asked(request: Any) -> Any:
        nonlocal batches
        batches += request.path.endswith("/batch")
        server.fault = None
        if batches == number:
            await instead()
        answer = await server._answer(request)
        server.fault = asked if batches < number else None
        return answer

    server.fault = asked


async def test_a_write_that_another_daemon_overtakes_fails_and_is_right_when_it_is_repeated(
    index: Index, server: QdrantServer
) -> None:
    other = await opened(server)

    async def overtake() -> None:
        await other.put("log", "reviewer", "2", talk("one", "two", "three"))

    await at_batch(3, server, overtake)
    with pytest.raises(IndexFailed, match="another daemon wrote the part"):
        await index.put("log", "reviewer", "1", talk("one"))
    await index.put("log", "reviewer", "2", talk("one", "two", "three"))
    assert set(await server.points(NAME)) == {"e0", "e1", "e2"}
    await other.close()


async def test_a_write_that_ended_before_its_words_is_right_when_it_is_repeated(
    index: Index, server: QdrantServer
) -> None:
    async def fail() -> None:
        raise ConnectionResetError

    await index.put("log", "reviewer", "1", talk("one", "two"))
    for texts in (("one", "two", "three"), ("one", "three"), ("three",)):
        await at_batch(2, server, fail)
        with pytest.raises(IndexFailed):
            await index.put("log", "reviewer", "2", talk(*texts))
        server.fault = None
        await index.put("log", "reviewer", "2", talk(*texts))
        plain = Plain()
        plain.put("log", "reviewer", "2", talk(*texts))
        await compare_neighbours(index, plain)
        assert {word: set(await said(index, word)) for word in texts} == {
            word: plain.keyword(word, EntryFilter()) for word in texts
        }


async def test_a_server_that_is_started_again_has_what_it_had(tmp_path: Path) -> None:
    server = QdrantServer(tmp_path / "qdrant")
    await server.start()
    index = await opened(server)
    try:
        await index.put("log", "reviewer", "1", talk("one", "two"))
        await embed(index)
        port = server._port
        await server.close()
        server = QdrantServer(tmp_path / "qdrant")
        server._port = port
        await server.start()
        assert (await near(index, "two"))[0] == "e1"
        assert await said(index, "two") == ["e1", "e0"]
        assert await index.pending(10) == []
    finally:
        await index.close()
        await server.close()


# Ownership of a collection.


async def foreign(server: QdrantServer, **metadata: Any) -> None:
    sparse = {"words": models.SparseVectorParams()}
    await server.local.create_collection(NAME, vectors_config={}, sparse_vectors_config=sparse, metadata=metadata)


async def bare(server: QdrantServer) -> Index:
    """An index that has not asked for anything."""
    return await open_index(Variant(name="qdrant"), None, {"url": server.url}, name=NAME)


async def test_another_model_and_dimension_have_all_embedded_again(index: Index, server: QdrantServer) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed(index)
    await index.use_model("large", 3)
    assert await index.embed(vectors(await index.pending(10), 3)) == 2
    assert (await index.stats())[:4] == (2, 2, "large", 3)
    await index.use_model("m", DIMENSION)
    assert len(await index.pending(10)) == 2
    assert await embed(index) == 2
    assert (await near(index, "two"))[0] == "e1"


async def test_a_collection_that_does_not_fit_is_said_and_left_alone(server: QdrantServer) -> None:
    params = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
    for config in ({"text": params}, params):
        index = await bare(server)
        await server.local.create_collection(NAME, vectors_config=config)
        with pytest.raises(IndexFailed, match="was not created here") as failed:
            await index.put("log", "reviewer", "1", talk("one"))
        assert 'collection "…"' in failed.value.line()
        await index.clear()
        assert await server.local.collection_exists(NAME)
        await server.local.delete_collection(NAME)
        await index.put("log", "reviewer", "1", talk("one"))
        assert index.problem is None
        await index.close()
        await server.local.delete_collection(NAME)


async def test_a_collection_that_holds_what_is_not_ours_is_left_alone(server: QdrantServer) -> None:
    await foreign(server)
    index = await bare(server)
    await server.local.upsert(NAME, [models.PointStruct(id=1, vector={}, payload={"memory_id": "theirs"})])
    with pytest.raises(IndexFailed, match="contains 1 points of other data"):
        await index.put("log", "reviewer", "1", talk("one"))
    await index.clear()
    assert set(await server.points(NAME)) == {"theirs"}
    await index.close()


async def test_the_collection_of_another_memory_is_not_shared(server: QdrantServer) -> None:
    await foreign(server, symbiont_index="others_12345678", symbiont_made=True)
    index = await bare(server)
    with pytest.raises(IndexFailed, match="the index of another memory, others_12345678"):
        await index.put("log", "reviewer", "1", talk("one"))
    await index.clear()
    assert await server.local.collection_exists(NAME)
    await index.close()


async def test_an_empty_collection_that_somebody_made_is_used_and_never_deleted(server: QdrantServer) -> None:
    await foreign(server, theirs="kept")
    index = await opened(server)
    await index.put("log", "reviewer", "1", talk("one"))
    await embed(index)
    assert await near(index, "one") == ["e0"]
    assert len(server.indexed[NAME]) == len(INDEXED)
    await index.clear()
    kept = (await server.local.get_collection(NAME)).config.metadata
    assert kept is not None
    assert kept["theirs"] == "kept"
    assert await server.points(NAME) == {}
    await index.close()


def test_ids_of_points_follow_from_those_of_entries() -> None:
    names = ["", "e0", "E0", "日本", str(uuid4())]
    assert len({key_of(name) for name in names}) == len(names)
    assert all(0 < key_of(name) < 2**63 for name in names)
