"""A file without token bits keeps its vectors and gets the bits; they are stored in little space."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runtime.search.index import open_index
from runtime.search.index.embedded import schema, token_bits
from runtime.search.index.embedded.access import Access
from runtime.search.index.embedded.errors import DamagedIndex
from runtime.search.index.embedded.index import EmbeddedIndex
from runtime.search.index.embedded.index_file import IndexFile
from runtime.search.index.embedded.sqlcipher import connect
from runtime.search.index.index import Index
from tests.runtime.search.index.checker import agree, key_of
from tests.runtime.search.index.embedded.version_6 import make_version_6
from tests.runtime.search.index.entries import (
    DIMENSION,
    TOKEN_BITS,
    bits,
    embed,
    embed_with_tokens,
    entry,
    near,
    said,
    talk,
    tokens,
)

TEXTS = ("one", "two", "three")


@pytest.fixture(params=["memory.db", "sealed.db"])
async def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the closed file of version 6 of an index with three entries, two of which have a vector."""
    path = tmp_path / "index" / str(request.param)
    index = await opened(path, None)
    await index.put("log", "reviewer", "1", talk(*TEXTS))
    await embed(index, 2)
    await index.close()
    make_version_6(path, key_of(path))
    return path


async def opened(path: Path, version: str | None = TOKEN_BITS) -> Index:
    index = await open_index(None, path, {}, key=key_of(path))
    await index.use_model("m", DIMENSION, version)
    return index


async def is_upgraded(path: Path) -> None:
    """Open it, find the entries and vectors of `path`, and add the rest."""
    index = await opened(path)
    try:
        assert index.rebuilt == 0
        assert await index.parts() == {"log": "1"}
        assert (await index.stats()).embedded == 2
        assert sorted(await near(index, "one")) == ["e1", "e2"]
        assert await said(index, "one") == ["e0", "e1"]
        assert await tokens(index, "e1", "e2") == [None, None]
        assert [one.id for one in await index.pending(10)] == ["e0", "e2", "e1"]
        assert await embed_with_tokens(index) == 3
        assert await tokens(index, "e0", "e1", "e2") == [bits(text) for text in TEXTS]
    finally:
        await index.close()
    assert agree(path) == 3


async def test_a_file_of_version_6_keeps_its_vectors_and_gets_token_bits(path: Path) -> None:
    await is_upgraded(path)
    index = await opened(path)
    assert await index.pending(10) == []
    assert (await index.stats()).tokenized == 3
    await index.close()


async def test_an_upgrade_that_is_killed_is_done_at_the_next_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = path.parent.parent / "in the middle", path.parent.parent / "after"
    upgrade, prepare = schema.upgrade, IndexFile._prepare

    def then_killed(connection: sqlite3.Connection) -> None:
        upgrade(connection)
        shutil.copytree(path.parent, copies[0])

    def done(self: IndexFile) -> bool:
        if not (changed := prepare(self)):
            shutil.copytree(path.parent, copies[1], dirs_exist_ok=True)
        return changed

    monkeypatch.setattr(schema, "upgrade", then_killed)
    monkeypatch.setattr(IndexFile, "_prepare", done)
    await (await opened(path)).close()
    shutil.rmtree(copies[1], ignore_errors=True)
    await (await opened(path)).close()
    monkeypatch.undo()
    for copy in copies:
        await is_upgraded(copy / path.name)


async def test_an_older_file_of_version_6_that_lacks_a_table_is_made_anew(path: Path) -> None:
    with contextlib.closing(connect(path, key_of(path), 10)) as connection:
        connection.execute("DROP TABLE other_sources")
        connection.commit()
    with pytest.raises(DamagedIndex, match="tables are missing"):
        IndexFile(path, key_of(path))
    index = await opened(path)
    assert await index.parts() == {}
    assert index.rebuilt == 1
    await index.close()


async def test_a_second_process_sees_token_bits_and_their_version(path: Path) -> None:
    one, other = await opened(path), await opened(path, None)
    await embed_with_tokens(one)
    await other.put("more", "reviewer", "1", [entry("x", "four", part="more")])  # reads what was changed
    await other.use_model("m", DIMENSION, TOKEN_BITS)
    assert (await other.stats()).tokenized == 3
    assert await tokens(other, "e2", "e0") == [bits("three"), bits("one")]
    assert [waiting.id for waiting in await other.pending(10)] == ["x"]
    await other.use_model("m", DIMENSION, "another")
    await one.put("more", "reviewer", "2", [entry("x", "five", part="more")])
    assert (await one.stats()).tokenized == 0
    assert await tokens(one, "e0") == [None]
    await embed_with_tokens(other)
    await one.drop(["more"])
    assert (await one.stats()).tokenized == 0, "of another version"
    assert await tokens(one, "e0") == [None]
    await embed_with_tokens(one)
    assert await tokens(one, "e0") == [bits("one")]
    await one.close()
    await other.close()
    assert agree(path) == 3


@pytest.mark.parametrize("path", ["sealed.db"], indirect=True)
async def test_the_cache_of_token_bits_is_limited_and_forgets_what_changes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_bits, "_OVERHEAD", 0)
    monkeypatch.setattr(token_bits, "_KEPT_BYTES", 4)  # one byte for each word
    access = Access(path, key_of(path))
    await access.open()
    index = EmbeddedIndex(access)
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    texts = [" ".join(["word"] * number) for number in range(6)]
    await index.put("log", "reviewer", "2", talk(*texts))
    await embed_with_tokens(index)

    async def cached() -> dict[int, int]:
        """Return the number of words of the cached entries, the one used last at the end."""
        return await access.read(lambda loaded: {key: len(bits) for key, bits in loaded._tokens._kept.items()})

    for number in (1, 0, 2, 1):
        assert await tokens(index, f"e{number}") == [bits(texts[number])]
    assert list((await cached()).values()) == [0, 2, 1]
    assert await tokens(index, "e3") == [bits(texts[3])]
    assert list((await cached()).values()) == [1, 3]
    assert await tokens(index, "e5", "e5") == [bits(texts[5])] * 2, "larger than the cache"
    assert await cached() == {}
    assert await tokens(index, "e1", "e3") == [bits(texts[1]), bits(texts[3])]
    await index.put("log", "reviewer", "3", [replace(one, text="new", hash="n") for one in talk(*texts[:2])])
    assert await cached() == {}
    await index.close()


async def test_pages_are_filled_although_the_newest_entries_come_first(tmp_path: Path) -> None:
    dimension, count = 384, 1280
    index = await open_index(None, tmp_path / "memory.db", {})
    await index.use_model("m", dimension, TOKEN_BITS)
    await index.put("log", "reviewer", "1", talk(*["x"] * count))
    while waiting := await index.pending(64):
        vectors = np.random.default_rng(1).normal(size=(len(waiting), dimension)).astype(np.float32)
        await index.embedded(list(zip(waiting, vectors, strict=True)), [bytes(1200)] * len(waiting))
    await index.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        connection.execute("VACUUM INTO ?", (str(tmp_path / "compact.db"),))
    assert (tmp_path / "memory.db").stat().st_size < 1.3 * (tmp_path / "compact.db").stat().st_size
