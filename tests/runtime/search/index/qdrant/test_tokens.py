"""Token bits beside a Qdrant server are in the file here, and follow the entries whatever happens to the points."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from dslc.blocks.variant import Variant
from runtime.search.errors import IndexFailed
from runtime.search.index import open_index
from runtime.search.index.index import Index
from runtime.search.index.qdrant.point import payload_of, point_id
from tests.runtime.search.index.entries import (
    DIMENSION,
    TOKEN_BITS,
    bits,
    embed_with_tokens,
    near,
    talk,
    tokens,
    vector,
)
from tests.runtime.search.index.qdrant.qdrant_server import QdrantServer

NAME = "notes_1a2b3c4d"
WRITTEN = f"PUT /collections/{NAME}/points"


@pytest.fixture
async def server() -> AsyncIterator[QdrantServer]:
    started = QdrantServer()
    await started.start()
    yield started
    await started.close()


async def opened(server: QdrantServer, path: Path, token_bits: str | None = TOKEN_BITS) -> Index:
    index = await open_index(Variant(name="qdrant"), path, {"url": server.url, "exact": True}, name=NAME)
    await index.use_model("m", DIMENSION, token_bits)
    return index


@pytest.fixture
async def index(server: QdrantServer, tmp_path: Path) -> AsyncIterator[Index]:
    """An index with four entries."""
    made = await opened(server, tmp_path / "notes.db")
    await made.put("log", "reviewer", "1", talk("one", "two", "three", "four"))
    assert await embed_with_tokens(made) == 4
    yield made
    await made.close()


async def pending(index: Index) -> list[str]:
    return [one.id for one in await index.pending(10)]


@pytest.mark.usefixtures("index")
async def test_entries_that_another_daemon_embedded_get_their_bits_here_without_another_vector(
    server: QdrantServer, tmp_path: Path
) -> None:
    second = await opened(server, tmp_path / "second.db")
    try:
        await second.put("log", "reviewer", "1", talk("one", "two", "drei", "four"))
        await second.tend()
        assert (await second.stats())[1::4] == (3, 0)
        assert await pending(second) == ["e2", "e3", "e1", "e0"]
        assert (await near(second, "two"))[0] == "e1"
        assert await tokens(second, "e0", "e3") == [None, None]
        assert await embed_with_tokens(second, 1) == 1
        written = server.asked.count(WRITTEN)
        assert await embed_with_tokens(second) == 3
        assert server.asked.count(WRITTEN) == written
        assert await tokens(second, "e0", "e2", "e3") == [bits("one"), bits("drei"), bits("four")]
        assert await pending(second) == []
    finally:
        await second.close()


async def test_another_version_is_made_without_a_word_to_the_server(index: Index, server: QdrantServer) -> None:
    asked = len(server.asked)
    await index.use_model("m", DIMENSION, "another")
    assert await pending(index) == ["e3", "e2", "e1", "e0"]
    assert await embed_with_tokens(index) == 4
    assert len(server.asked) == asked
    assert await tokens(index, "e0") == [bits("one")]


async def test_a_file_of_an_earlier_program_keeps_its_marks_and_its_entries_wait_for_bits(
    server: QdrantServer, tmp_path: Path
) -> None:
    path = tmp_path / "notes.db"
    first = await opened(server, path, None)
    await first.put("log", "reviewer", "1", talk("one", "two"))
    await embed_with_tokens(first)
    await first.close()
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("DROP TABLE tokens")
        file.execute("PRAGMA user_version = 6")
    written = server.asked.count(WRITTEN)
    second = await opened(server, path)
    try:
        assert (await second.stats())[1::4] == (2, 0)
        assert (await near(second, "two"))[0] == "e1"
        assert await embed_with_tokens(second) == 2
        assert await tokens(second, "e0", "e1") == [bits("one"), bits("two")]
        assert server.asked.count(WRITTEN) == written
    finally:
        await second.close()


async def lose_everything(server: QdrantServer) -> None:
    await server.local.delete_collection(NAME)


async def lose_some(server: QdrantServer) -> None:
    await server.local.delete(NAME, points_selector=models.PointIdsList(points=[point_id("e1")]))


async def go_back(server: QdrantServer) -> None:
    """As after restoring a copy: a point is missing and another has old text."""
    await lose_some(server)
    old = models.PointStruct(id=point_id("e0"), vector=vector("eins").tolist(), payload=payload_of(talk("eins")[0]))
    await server.local.upsert(NAME, [old])


@pytest.mark.parametrize(
    ("lose", "waiting"),
    [(lose_everything, ["e3", "e2", "e1", "e0"]), (lose_some, ["e1"]), (go_back, ["e1", "e0"])],
    ids=["everything", "a point", "what was done since a copy"],
)
async def test_entries_whose_points_are_lost_get_them_and_their_bits_again_and_others_keep_theirs(
    lose: Any, waiting: list[str], index: Index, server: QdrantServer, tmp_path: Path
) -> None:
    await index.close()
    await lose(server)
    again = await opened(server, tmp_path / "notes.db")
    try:
        await again.tend()
        assert await pending(again) == waiting
        there = 4 - len(waiting)
        assert (await again.stats())[1::4] == (there, there)
        assert await embed_with_tokens(again) == len(waiting)
        assert await tokens(again, "e0", "e1", "e2", "e3") == [bits(each) for each in ("one", "two", "three", "four")]
        assert (await again.stats())[1::4] == (4, 4)
    finally:
        await again.close()


async def test_bits_are_not_kept_of_what_the_server_did_not_take(index: Index, server: QdrantServer) -> None:
    await index.put("log", "reviewer", "2", talk("one", "zwei"))
    await server.stop()
    with pytest.raises(IndexFailed, match=r"127\.0\.0\.1"):
        await embed_with_tokens(index)
    await server.start()
    await index.tend()
    assert (await index.stats())[:2] == (2, 1)
    assert (await index.stats()).tokenized == 1
    assert await embed_with_tokens(index) == 1
    assert await tokens(index, "e0", "e1") == [bits("one"), bits("zwei")]
