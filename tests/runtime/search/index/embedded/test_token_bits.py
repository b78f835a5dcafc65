"""Token bits in the file: processes agree about their version, and they are stored in little space."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runtime.search.index import open_index
from runtime.search.index.embedded import token_bits
from runtime.search.index.embedded.access import Access
from runtime.search.index.embedded.index import EmbeddedIndex
from runtime.search.index.index import Index
from tests.runtime.search.index.checker import agree, key_of
from tests.runtime.search.index.entries import (
    DIMENSION,
    TOKEN_BITS,
    bits,
    embed,
    embed_with_tokens,
    entry,
    talk,
    tokens,
)

TEXTS = ("one", "two", "three")


@pytest.fixture(params=["memory.db", "sealed.db"])
async def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the closed file of an index with three entries, two of which have a vector."""
    path = tmp_path / "index" / str(request.param)
    index = await opened(path, None)
    await index.put("log", "reviewer", "1", talk(*TEXTS))
    await embed(index, 2)
    await index.close()
    return path


async def opened(path: Path, version: str | None = TOKEN_BITS) -> Index:
    index = await open_index(None, path, {}, key=key_of(path))
    await index.use_model("m", DIMENSION, version)
    return index


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
        await index.embed(list(zip(waiting, vectors, strict=True)), [bytes(1200)] * len(waiting))
    await index.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        connection.execute("VACUUM INTO ?", (str(tmp_path / "compact.db"),))
    assert (tmp_path / "memory.db").stat().st_size < 1.3 * (tmp_path / "compact.db").stat().st_size
