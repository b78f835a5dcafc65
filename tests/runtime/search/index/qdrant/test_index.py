"""The content of a Qdrant server equals that of the index after every operation and interruption."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
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
from runtime.search.index.index import AppendedEntries, Index
from runtime.search.index.qdrant.point import INDEXED, payload_of, point_id
from tests.lanes import examples, repeated
from tests.runtime.search.index.entries import (
    DIMENSION,
    EVERYTHING,
    TOKEN_BITS,
    WHEN,
    bits,
    embed,
    embed_with_tokens,
    entry,
    everything,
    near,
    said,
    talk,
    tokens,
    vector,
    vectors,
)
from tests.runtime.search.index.model import Plain, filters, steps
from tests.runtime.search.index.qdrant.qdrant_server import QdrantServer
from tests.runtime.search.index.test_model import compare, take

NAME = "notes_1a2b3c4d"


@pytest.fixture
async def server() -> AsyncIterator[QdrantServer]:
    started = QdrantServer()
    await started.start()
    yield started
    await started.close()


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete unknown points at once."""
    monkeypatch.setattr("runtime.search.index.qdrant.index.GRACE_SECONDS", 0.0)


async def opened(server: QdrantServer, path: Path | None, model: str | None = "m", **options: Any) -> Index:
    given = {"url": server.url, "exact": True} | options
    index = await open_index(Variant(name="qdrant"), path, given, name=NAME)
    await index.use_model(model, DIMENSION)
    return index


@pytest.fixture
async def index(server: QdrantServer, tmp_path: Path) -> AsyncIterator[Index]:
    made = await opened(server, tmp_path / "notes.db")
    yield made
    await made.close()


async def agrees(index: Index, server: QdrantServer, name: str = NAME) -> int:
    """Return the number of entries on the server. Raises AssertionError unless they are just those that have a vector,
    with their payload."""
    await index.tend()
    held = await everything(index)
    assert await server.points(name) == {one.id: payload_of(one) for one in held.values()}
    assert (await index.stats()).embedded == len(held)
    return len(held)


# Content.


async def test_payload_indexes_are_made_before_any_point(index: Index, server: QdrantServer) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two"))
    assert server.asked == []
    await embed(index)
    asked = [each.replace(f"/collections/{NAME}", "") for each in server.asked]
    assert asked == ["GET ", "PUT ", *["PUT /index"] * len(INDEXED), "POST /points/count", "PUT /points"]
    made = {name: info.data_type.value for name, info in server.indexed[NAME].items()}
    keywords = (
        "project_id",
        "memory_type",
        "tags",
        "chunk_hash",
        "agent_id",
        "user_id",
        "source_uri",
        "other_sources",
        "subject",
    )
    assert made == {"timestamp": "datetime"} | dict.fromkeys(keywords, "keyword")
    vectors_ = (await server.local.get_collection(NAME)).config.params.vectors
    assert isinstance(vectors_, models.VectorParams)
    assert (vectors_.size, vectors_.distance) == (DIMENSION, models.Distance.COSINE)


async def test_a_point_carries_the_universal_payload(index: Index, server: QdrantServer) -> None:
    item = Item(
        memory_id=str(uuid4()), project_id="shop", agent_id="reviewer", user_id="bob", memory_type="semantic",
        timestamp=datetime(2025, 1, 2, 3, 4, 5, 123456, UTC), source_uri="file:///a.md", tags=("b", "a"),
        text="Zwei 日本", source_memory_ids=("x", "y"), provenance=Provenance(author="Ada", confidence=0.5),
    )  # fmt: skip
    part = Part("notes", "reviewer", "1")
    await index.put(part.name, part.agent_id, "1", entries_of(part, [(item, None)]))
    await embed(index)
    ((identity, payload),) = (await server.points(NAME)).items()
    assert identity == item.memory_id
    assert payload == item.model_dump(mode="json", exclude_defaults=True) | {"author": "Ada", "tags": ["a", "b"]}
    (record,), _ = await server.local.scroll(NAME)
    assert record.id == item.memory_id


def test_a_point_has_the_entrys_own_uuid_or_one_that_follows_from_its_id() -> None:
    own = str(uuid4())
    assert point_id(own) == own
    others = [own.upper(), own.replace("-", ""), f"{{{own}}}", "e0", "", "日本"]
    made = [point_id(each) for each in others]
    assert len({own, *made}) == len(others) + 1
    assert made == [str(UUID(each)) for each in made] == [point_id(each) for each in others]


async def test_only_a_mark_of_one_number_stays_here(index: Index, tmp_path: Path) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed(index)
    with contextlib.closing(sqlite3.connect(tmp_path / "notes.db")) as file:
        assert file.execute("SELECT length(vector) FROM vectors").fetchall() == [(4,), (4,)]
        assert file.execute("SELECT * FROM stale").fetchall() == []
    assert (await index.stats())[:4] == (2, 2, "m", DIMENSION)


async def test_the_collection_has_the_name_that_was_asked_for_or_the_indexs_own(
    server: QdrantServer, tmp_path: Path
) -> None:
    index = await opened(server, tmp_path / "notes.db", collection="my-notes")
    await index.put("log", "reviewer", "1", talk("one"))
    await embed(index)
    assert await agrees(index, server, "my-notes") == 1
    assert "my-notes" in str(await index.reachable())
    await index.close()


# Order of operations.


async def test_the_payload_follows_while_the_vector_stays(index: Index, server: QdrantServer) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", tags=("old",)))
    await embed(index)
    made = server.asked.count(f"PUT /collections/{NAME}/points")
    one, two = talk("one", "two", tags=("old",))
    await index.put("log", "reviewer", "2", [replace(one, tags=("new",), project="p", source="s", user="bob"), two])
    wanted = EntryFilter(tags_all=frozenset({"new"}), project="p", source="s", user="bob")
    assert await near(index, "one", wanted) == ["e0"]
    assert await near(index, "one", EntryFilter(tags_any=frozenset({"old"}))) == ["e1"]
    assert server.asked.count(f"PUT /collections/{NAME}/points") == made
    assert await agrees(index, server) == 2


async def test_the_payload_follows_an_entry_that_is_appended_to_another_part(
    index: Index, server: QdrantServer
) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", tags=("old",)))
    await embed(index)
    made = server.asked.count(f"PUT /collections/{NAME}/points")
    one, two = (replace(each, part="other", tags=("new",)) for each in talk("one", "two"))
    grown = [
        AppendedEntries("other", "reviewer", None, "1", [one]),
        AppendedEntries("log", "reviewer", "0", "2", [two]),
    ]
    assert await index.grow_each(grown) == [True, False]
    assert await near(index, "one", EntryFilter(tags_any=frozenset({"new"}))) == ["e0"]
    assert server.asked.count(f"PUT /collections/{NAME}/points") == made
    assert await agrees(index, server) == 2


async def test_what_only_stands_on_another_line_is_not_sent_again(index: Index, server: QdrantServer) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed(index)
    asked = len(server.asked)
    await index.put("log", "reviewer", "2", [replace(one, line=9, rest='{"file":"b"}') for one in talk("one", "two")])
    assert len(server.asked) == asked


async def test_what_is_forgotten_is_gone_from_the_server_too(index: Index, server: QdrantServer) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", "three"))
    await index.put("more", "reviewer", "1", [entry("x", "four", part="more")])
    await embed(index)
    await index.put("log", "reviewer", "2", talk("one", "two"))
    assert set(await server.points(NAME)) == {"e0", "e1", "x"}
    await index.put("log", "reviewer", "3", talk("one", "zwei"))
    assert set(await server.points(NAME)) == {"e0", "x"}
    await index.drop(["log"])
    assert set(await server.points(NAME)) == {"x"}
    await index.clear()
    assert await server.points(NAME) == {}
    assert not await server.local.collection_exists(NAME)


async def test_what_is_forgotten_while_the_server_is_away_is_deleted_when_it_is_back(
    server: QdrantServer, tmp_path: Path
) -> None:
    index = await opened(server, tmp_path / "notes.db")
    await index.put("log", "reviewer", "1", talk("one", "two", "three", tags=("old",)))
    await embed(index)
    await server.stop()
    assert (await index.put("log", "reviewer", "2", talk("one", "two", tags=("new",)))).removed == 1
    assert await said(index, "three") == []
    assert "127.0.0.1" in str(index.problem)
    await index.close()
    await server.start()
    again = await opened(server, tmp_path / "notes.db")
    assert set(await server.points(NAME)) == {"e0", "e1", "e2"}
    assert await agrees(again, server) == 2
    assert again.problem is None
    await again.close()


async def test_an_entry_that_changed_while_its_point_was_made_is_not_taken_for_it(
    index: Index, server: QdrantServer
) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", "three"))
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    waiting = await index.pending(10)
    held, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> Any:
        if request.path.endswith("/points"):
            server.fault = None
            held.set()
            await go_on.wait()
        fault, server.fault = server.fault, None
        try:
            return await server._answer(request)
        finally:
            server.fault = fault

    await index.tend()
    server.fault = slow
    task = asyncio.create_task(index.embedded(vectors(waiting), [bits(one.text) for one in waiting]))
    await held.wait()
    change = asyncio.create_task(index.put("log", "reviewer", "2", talk("one", "zwei")))
    while (await index.parts()) != {"log": "2"}:
        await asyncio.sleep(0.001)
    go_on.set()
    assert (await task, (await change).removed) == (1, 1)
    assert await agrees(index, server) == 1
    assert [one.text for one in await index.pending(10)] == ["zwei"]
    assert (await index.stats()).tokenized == 1
    assert await tokens(index, "e0") == [bits("one")]


async def test_a_server_that_was_not_heard_out_is_asked_again(server: QdrantServer, tmp_path: Path) -> None:
    """The server has the points, but the process ended before it recorded that."""
    index = await opened(server, tmp_path / "notes.db")
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await index.tend()
    done = asyncio.Event()

    async def never_tell(request: Any) -> Any:
        server.fault = None
        await server._answer(request)
        done.set()
        await asyncio.Event().wait()

    server.fault = never_tell
    task = asyncio.create_task(index.embedded(vectors(await index.pending(10))))
    await done.wait()
    task.cancel()
    await asyncio.wait({task})
    await index.close()
    assert len(await server.points(NAME)) == 2
    again = await opened(server, tmp_path / "notes.db")
    await again.put("log", "reviewer", "2", talk("one"))
    assert await agrees(again, server) == 0
    assert await embed(again) == 1
    assert await agrees(again, server) == 1
    await again.close()


@repeated("rounds", 1, 10)
async def test_a_process_that_is_killed_leaves_what_the_next_one_can_go_on_with(
    server: QdrantServer, tmp_path: Path, rounds: int
) -> None:
    path = tmp_path / "memory.db"
    chance = random.Random(7)
    for _ in range(rounds):
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.runtime.search.index.worker", "qdrant", path, server.url, "5000"),
            *("a", "b", "c"), stdout=subprocess.PIPE,
        )  # fmt: skip
        assert worker.stdout is not None
        for _ in range(chance.randrange(3, 12)):
            await worker.stdout.readline()
        await asyncio.sleep(chance.random() / 20)
        worker.kill()
        await worker.wait()
        index = await open_index(Variant(name="qdrant"), path, {"url": server.url})
        try:
            await index.use_model("m", DIMENSION, TOKEN_BITS)
            await agrees(index, server, "memory")
            await embed_with_tokens(index, 100_000)
            assert await agrees(index, server, "memory") == (await index.stats()).entries > 0
            assert (await index.stats()).tokenized == (await index.stats()).entries
            there = {one.id: bits(one.text) for one in (await everything(index)).values()}
            assert await tokens(index, *there) == list(there.values())
            for one, score in zip(*await best_of_each(index), strict=True):
                assert score == pytest.approx(1, abs=1e-5), one
        finally:
            await index.close()


async def best_of_each(index: Index) -> tuple[list[str], list[float]]:
    """Return the similarity of every tenth entry to the vector of its own text."""
    entries = sorted((await everything(index)).values(), key=lambda one: one.id)[::10]
    found = [await index.nearest(vector(one.text), EVERYTHING, 1) for one in entries]
    return [one.id for one in entries], [float(each.scores[0]) for each in found]


@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(taken=st.lists(steps.filter(lambda step: step[0] != "open"), max_size=8), wanted=filters)
async def test_any_steps_lead_to_what_the_plain_model_says(
    taken: list[Any], wanted: EntryFilter, tmp_path: Path
) -> None:
    server, plain = QdrantServer(), Plain()
    await server.start()
    index = await opened(server, tmp_path / f"{uuid4()}.db")
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    try:
        for number, step in enumerate(taken):
            index = await take(step, number, index, plain, None)
        await compare(index, plain, wanted)
        await agrees(index, server)
    finally:
        await index.close()
        await server.close()


# Data loss on the server.


async def filled(server: QdrantServer, path: Path) -> None:
    index = await opened(server, path)
    await index.put("log", "reviewer", "1", talk("one", "two", "three", "four"))
    await embed(index)
    await index.close()


async def lose_everything(server: QdrantServer) -> None:
    await server.local.delete_collection(NAME)


async def lose_points(server: QdrantServer) -> None:
    every = models.FilterSelector(filter=models.Filter())
    await server.local.delete(NAME, points_selector=every)


async def lose_some(server: QdrantServer) -> None:
    await server.local.delete(NAME, points_selector=models.PointIdsList(points=[point_id("e1")]))


async def go_back(server: QdrantServer) -> None:
    """As after restoring a copy: some points are missing, one has old text, one has other tags, one was forgotten."""
    await lose_some(server)
    ones = vector("x").tolist()
    old = payload_of(talk("eins")[0])
    forgotten = payload_of(entry("gone", "gone"))
    points = [(point_id("e0"), old), (point_id("gone"), forgotten), (str(uuid4()), {"memory_id": "e2"})]
    await server.local.upsert(NAME, [models.PointStruct(id=id_, vector=ones, payload=said) for id_, said in points])
    tags = payload_of(talk("four", start=3, tags=("other",))[0])
    await server.local.overwrite_payload(NAME, payload=tags, points=[point_id("e3")])


@pytest.mark.usefixtures("no_grace")
@pytest.mark.parametrize(
    ("lose", "waiting"),
    [(lose_everything, 4), (lose_points, 4), (lose_some, 1), (go_back, 2)],
    ids=["everything", "its points", "some points", "what was done since a copy"],
)
async def test_what_a_server_lost_is_noticed_when_it_is_opened_and_made_again(
    lose: Any, waiting: int, server: QdrantServer, tmp_path: Path
) -> None:
    await filled(server, tmp_path / "notes.db")
    await lose(server)
    index = await opened(server, tmp_path / "notes.db")
    try:
        await index.tend()
        assert len(await index.pending(10)) == waiting
        assert await agrees(index, server) == 4 - waiting
        assert await embed(index) == waiting
        assert await agrees(index, server) == 4
        assert len(server.indexed[NAME]) == len(INDEXED)
    finally:
        await index.close()


@pytest.mark.parametrize("lose", [lose_everything, lose_points, lose_some])
async def test_what_a_server_loses_meanwhile_is_noticed_by_a_search(
    lose: Any, index: Index, server: QdrantServer
) -> None:
    called: list[None] = []
    index.on_work = lambda: called.append(None)
    await index.put("log", "reviewer", "1", talk("one", "two", "three"))
    await embed(index)
    assert len(await near(index, "one")) == 3
    assert called == []
    await lose(server)
    assert len(await near(index, "one")) < 3
    assert called
    await index.tend()
    waiting = await embed(index)
    assert waiting > 0
    assert await agrees(index, server) == 3


@pytest.mark.usefixtures("no_grace")
async def test_a_file_that_was_lost_here_leaves_nothing_there_that_nobody_knows(
    server: QdrantServer, tmp_path: Path
) -> None:
    await filled(server, tmp_path / "notes.db")
    index = await opened(server, tmp_path / "other.db")
    try:
        await index.tend()
        assert await server.points(NAME) == {}
        await index.put("log", "reviewer", "1", talk("one"))
        await embed(index)
        assert await agrees(index, server) == 1
    finally:
        await index.close()


async def test_points_that_are_there_already_are_not_embedded_again(server: QdrantServer, tmp_path: Path) -> None:
    await filled(server, tmp_path / "notes.db")
    index = await opened(server, tmp_path / "other.db")
    try:
        await index.put("log", "reviewer", "1", talk("one", "zwei", "three", "four", tags=("new",)))
        await index.tend()
        assert [one.text for one in await index.pending(10)] == ["zwei"]
        assert sorted(await near(index, "one", EntryFilter(tags_all=frozenset({"new"})))) == ["e0", "e2", "e3"]
        assert await embed(index) == 1
        assert await agrees(index, server) == 4
    finally:
        await index.close()


async def test_what_nobody_knows_of_is_deleted_when_it_was_left_alone_for_a_while(
    server: QdrantServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(server, tmp_path / "notes.db")
    for grace, left in ((600.0, 4), (0.0, 1)):
        monkeypatch.setattr("runtime.search.index.qdrant.index.GRACE_SECONDS", grace)
        index = await opened(server, tmp_path / "other.db")
        await index.put("log", "reviewer", "1", talk("one"))
        await index.tend()
        assert await near(index, "one") == ["e0"]
        await index.close()
        assert len(await server.points(NAME)) == left


async def test_two_daemons_with_one_store_have_one_collection(server: QdrantServer, tmp_path: Path) -> None:
    first, second = await opened(server, tmp_path / "a.db"), await opened(server, tmp_path / "b.db")
    try:
        for index in (first, second):
            await index.put("log", "reviewer", "1", talk("one", "two"))
            await embed(index)
        for index in (second, first):
            await index.put("log", "reviewer", "2", talk("one", "zwei", "three"))
            await embed(index)
        await first.tend()
        await second.tend()
        for index in (first, second, first):
            assert await near(index, "three") == await near(second, "three")
            assert len(await near(index, "three")) == 3
            await index.tend()
            assert await index.pending(10) == []
        await second.put("log", "reviewer", "3", talk("one"))
        assert set(await server.points(NAME)) == {"e0"}
        await first.put("log", "reviewer", "3", talk("one"))
        assert await agrees(first, server) == 1
        assert await agrees(second, server) == 1
    finally:
        await first.close()
        await second.close()


async def test_a_server_that_is_started_again_has_what_it_had(tmp_path: Path) -> None:
    server = QdrantServer(tmp_path / "qdrant")
    await server.start()
    index = await opened(server, tmp_path / "notes.db")
    try:
        await index.put("log", "reviewer", "1", talk("one", "two"))
        await embed(index)
        await server.close()
        server = QdrantServer(tmp_path / "qdrant")
        server._port = int(str(index._collection.shown).rpartition(":")[2])  # type: ignore[attr-defined]
        await server.start()
        assert await near(index, "two") == ["e1", "e0"] or await near(index, "two") == ["e1", "e0"]
        assert await index.pending(10) == []
    finally:
        await index.close()
        await server.close()


# Ownership of a collection.


async def foreign(server: QdrantServer, size: int = DIMENSION, **metadata: Any) -> None:
    params = models.VectorParams(size=size, distance=models.Distance.COSINE)
    await server.local.create_collection(NAME, vectors_config=params, metadata=metadata)


async def test_another_model_has_the_collection_made_again(server: QdrantServer, tmp_path: Path) -> None:
    index = await opened(server, tmp_path / "notes.db")
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed(index)
    await index.use_model("large", 3)
    assert await index.embedded(vectors(await index.pending(10), 3)) == 2
    assert (await index.stats())[:4] == (2, 2, "large", 3)
    assert len(await server.points(NAME)) == 2
    assert len(server.indexed[NAME]) == len(INDEXED)
    await index.close()
    again = await open_index(Variant(name="qdrant"), tmp_path / "notes.db", {"url": server.url}, name=NAME)
    await again.use_model("m", DIMENSION)
    await again.put("log", "reviewer", "2", talk("one"))
    await again.tend()
    assert await server.points(NAME) == {}
    assert await embed(again) == 1
    assert await agrees(again, server) == 1
    await again.close()


async def test_a_collection_of_another_dimension_that_is_not_ours_is_said_and_left_alone(
    index: Index, server: QdrantServer
) -> None:
    await foreign(server, size=5)
    await index.put("log", "reviewer", "1", talk("one"))
    with pytest.raises(IndexFailed) as failed:
        await embed(index)
    line = failed.value.line()
    assert f"the collection {NAME} of Qdrant at 127.0.0.1" in line
    assert "takes vectors of 5 numbers" in line
    assert f"{DIMENSION} numbers" in line
    assert 'collection "…"' in line
    assert index.problem == line
    assert [one.id for one in await index.pending(10)] == ["e0"]
    await server.local.delete_collection(NAME)
    assert await embed(index) == 1
    assert index.problem is None


async def test_a_collection_with_named_vectors_or_another_distance_does_not_fit(
    index: Index, server: QdrantServer
) -> None:
    params = models.VectorParams(size=DIMENSION, distance=models.Distance.DOT)
    await index.put("log", "reviewer", "1", talk("one"))
    for config, word in (({"text": params}, "names"), (params, "Dot")):
        await server.local.create_collection(NAME, vectors_config=config)
        with pytest.raises(IndexFailed, match=word):
            await embed(index)
        await server.local.delete_collection(NAME)


async def test_a_collection_that_holds_what_is_not_ours_is_left_alone(index: Index, server: QdrantServer) -> None:
    await foreign(server)
    point = models.PointStruct(id=1, vector=vector("x").tolist(), payload={"memory_id": "theirs"})
    await server.local.upsert(NAME, [point])
    await index.put("log", "reviewer", "1", talk("one"))
    with pytest.raises(IndexFailed, match="contains 1 points of other data"):
        await embed(index)
    with contextlib.suppress(IndexFailed):
        await index.clear()
    assert set(await server.points(NAME)) == {"theirs"}


@pytest.mark.usefixtures("no_grace")
async def test_a_memory_with_points_elsewhere_takes_nobodys_collection(server: QdrantServer, tmp_path: Path) -> None:
    await filled(server, tmp_path / "notes.db")
    params = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
    await server.local.create_collection("theirs", vectors_config=params)
    point = models.PointStruct(id=1, vector=vector("x").tolist(), payload={"memory_id": "theirs"})
    await server.local.upsert("theirs", [point])
    index = await opened(server, tmp_path / "notes.db", collection="theirs")
    for ask in (index.tend, index.tend, lambda: near(index, "one")):
        with pytest.raises(IndexFailed, match="contains 1 points of other data"):
            await ask()
    await index.clear()
    assert set(await server.points("theirs")) == {"theirs"}
    assert len(await server.points(NAME)) == 4
    await index.close()


async def test_the_collection_of_another_memory_is_not_shared(index: Index, server: QdrantServer) -> None:
    await foreign(server, symbiont_index="others_12345678", symbiont_model="m", symbiont_made=True)
    await index.put("log", "reviewer", "1", talk("one"))
    with pytest.raises(IndexFailed, match="the index of another memory, others_12345678"):
        await embed(index)
    await index.clear()
    assert await server.local.collection_exists(NAME)


async def test_an_empty_collection_that_somebody_made_is_used_and_never_deleted(
    server: QdrantServer, tmp_path: Path
) -> None:
    await foreign(server, theirs="kept")
    index = await opened(server, tmp_path / "notes.db")
    await index.put("log", "reviewer", "1", talk("one"))
    await embed(index)
    assert await agrees(index, server) == 1
    assert len(server.indexed[NAME]) == len(INDEXED)
    await index.use_model("another", DIMENSION)
    await index.tend()
    assert await server.points(NAME) == {}
    await index.clear()
    kept = (await server.local.get_collection(NAME)).config.metadata
    assert kept is not None
    assert kept["theirs"] == "kept"
    await index.use_model("large", 3)
    await index.put("log", "reviewer", "1", talk("one"))
    with pytest.raises(IndexFailed, match="takes vectors of 8 numbers"):
        await index.embedded(vectors(await index.pending(10), 3))
    await index.close()


async def test_a_server_that_keeps_no_metadata_serves_too(server: QdrantServer, tmp_path: Path) -> None:
    server.metadata = False
    await filled(server, tmp_path / "notes.db")
    index = await opened(server, tmp_path / "notes.db")
    assert await agrees(index, server) == 4
    assert np.allclose((await index.nearest(vector("one"), EVERYTHING, 1)).scores, 1)
    await index.close()


async def test_two_that_have_one_index_open_do_not_undo_each_others_work(server: QdrantServer, tmp_path: Path) -> None:
    """As during a reload with another timeout."""
    first, second = await opened(server, tmp_path / "notes.db"), await opened(server, tmp_path / "notes.db")
    await first.put("log", "reviewer", "1", talk("one", "two"))
    await embed(first)
    await second.put("log", "reviewer", "2", [*talk("one"), entry("x", "three", time=WHEN)])
    assert await embed(second) == 1
    assert await agrees(second, server) == 2
    await first.put("log", "reviewer", "3", talk("one"))
    assert await agrees(first, server) == 1
    await first.close()
    await second.close()
