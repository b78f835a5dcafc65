"""A large index has only the signs of vectors in memory, and finds the nearest entries with them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.search.entry import EntryFilter
from runtime.search.index import open_index
from runtime.search.index.embedded import in_memory
from runtime.search.index.embedded.matrix import unit
from runtime.search.index.embedded.sign_bits import SignBits
from runtime.search.index.embedded.sqlcipher import connect
from runtime.search.index.index import Index
from tests.runtime.search.index.checker import key_of
from tests.runtime.search.index.entries import DIMENSION, EVERYTHING, embed, entry, ids, near, vector

Vectors = NDArray[np.float32]
TEXTS = [f"text {number}" for number in range(300)]


def drawn(count: int, dimension: int) -> Vectors:
    """Return vectors around a centre for every fifty."""
    chance = np.random.default_rng(4)
    centres = chance.normal(size=(count // 50, dimension))
    made = centres[np.arange(count) % len(centres)] + chance.normal(size=(count, dimension))
    return unit(made.astype(np.float32), dimension)


@pytest.mark.parametrize(("dimension", "share"), [(100, 1.0), (384, 0.5), (384, 0.05)])
def test_the_nearest_rows_are_among_the_chosen_ones(dimension: int, share: float) -> None:
    rows = drawn(6_000, dimension)
    signs = SignBits(dimension, 10)
    for begin in range(0, len(rows), 2_500):
        some = np.arange(begin, min(begin + 2_500, len(rows)))
        signs.put(some, rows[some])
    chance = np.random.default_rng(5)
    keys = np.flatnonzero(chance.random(len(rows)) < share)
    found = []
    for _ in range(20):
        question = unit(rows[chance.choice(keys)] + chance.normal(size=(1, dimension)) / dimension**0.5, dimension)[0]
        chosen = signs.nearest(question, keys, 100)
        assert len(chosen) == 100
        assert np.isin(chosen, keys).all()
        found.append(np.isin(keys[np.argsort(-(rows[keys] @ question))[:10]], chosen).mean())
    assert np.mean(found) > 0.95


def test_no_more_rows_than_asked_for_are_all_chosen() -> None:
    signs = SignBits(8, 4)
    signs.put(np.arange(1, 4), drawn(50, 8)[:3])
    for keys in (np.zeros(0, np.int64), np.array([2]), np.arange(1, 4)):
        assert signs.nearest(vector("question"), keys, 3).tolist() == keys.tolist()


@pytest.fixture(params=["unsealed", "sealed"])
async def index(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Index]:
    """An index of two agents that has become large while it grew, and reads forty vectors."""
    monkeypatch.setattr(in_memory, "LARGE", 100)
    monkeypatch.setattr(in_memory, "CHOSEN", 40)
    made = await opened(tmp_path / f"{request.param}.db")
    for part, some in (("one", TEXTS[:90]), ("two", TEXTS[90:])):
        await made.put(part, part, "1", [entry(f"id {text}", text, agent=part) for text in some])
        await embed(made)
    yield made
    await made.close()


async def opened(path: Path) -> Index:
    index = await open_index(None, path, {}, key=key_of(path))
    await index.use_model("m", DIMENSION)
    return index


def exact(texts: list[str], question: str) -> list[str]:
    """Return the ids of these texts, nearest first."""
    return [f"id {text}" for text in sorted(texts, key=lambda text: -float(vector(text) @ vector(question)))]


async def test_cosines_of_a_large_index_are_exact_and_those_also_asked_for_are_complete(index: Index) -> None:
    everything = await index.nearest(vector("question"), EVERYTHING, 300)
    assert await ids(index, everything) == exact(TEXTS, "question")
    cosines = dict(zip(everything.keys.tolist(), everything.scores.tolist(), strict=True))
    farthest = everything.keys[-9:]
    found = await index.nearest(vector("question"), EVERYTHING, 10, farthest)
    assert found.keys[10:].tolist() == farthest.tolist()
    assert found.scores.tolist() == pytest.approx([cosines[key] for key in found.keys.tolist()], abs=1e-6)
    assert (await ids(index, found))[:3] == exact(TEXTS, "question")[:3]
    of_one = await index.nearest(vector("question"), EntryFilter(agent="one"), 10, farthest)
    assert {one.agent for one in (await index.entries(of_one.keys.tolist())).values()} == {"one"}


async def test_a_large_index_follows_changes_and_a_new_key(index: Index, tmp_path: Path) -> None:
    changed = [entry(f"id {text}", text, agent="one") for text in [*TEXTS[:50], "another text"]]
    await index.put("one", "one", "2", changed)
    await embed(index)
    remaining = [*TEXTS[:50], "another text", *TEXTS[90:]]
    assert await near(index, "question", limit=300) == exact(remaining, "question")
    await index.reseal(b"n" * 32)
    assert await near(index, "question", limit=300) == exact(remaining, "question")
    await index.use_model("m2", 16)
    assert await near(index, "question") == []
    assert await index.embed([(one, vector(one.text, 16)) for one in await index.pending(300)]) == len(remaining)
    found = await index.nearest(vector("another text", 16), EVERYTHING, 1)
    assert await ids(index, found) == ["id another text"]


@pytest.mark.parametrize("again", [False, True])
async def test_a_large_index_reads_vectors_from_its_file_also_when_opened_again(
    again: bool, index: Index, tmp_path: Path
) -> None:
    """A vector that another process deletes meanwhile is left out."""
    (path,) = tmp_path.glob("*.db")
    before = await near(index, "question", limit=10)
    if again:
        await index.close()
        index = await opened(path)
    try:
        assert await near(index, "question", limit=10) == before
        with contextlib.closing(connect(path, key_of(path), timeout=10)) as connection:
            connection.execute("DELETE FROM vectors WHERE key = (SELECT key FROM entries WHERE id = ?)", (before[0],))
        assert (await near(index, "question", limit=10))[:9] == before[1:]
    finally:
        await index.close()


async def test_vectors_that_another_process_replaced_by_those_of_another_model_are_left_out(
    index: Index, tmp_path: Path
) -> None:
    """The file is not taken for a damaged one, and the next write reads what the other process has stored."""
    (path,) = tmp_path.glob("*.db")
    other = await opened(path)
    await other.use_model("m2", 16)
    waiting = await other.pending(300)
    await other.embed([(one, vector(one.text, 16)) for one in waiting[:200]])
    assert await near(index, "question") == []
    await index.drop(["none"])
    assert (index.rebuilt, (await index.stats()).model) == (0, "m2")
    found = await index.nearest(vector(waiting[0].text, 16), EVERYTHING, 1)
    assert await ids(index, found) == [waiting[0].id]
    await other.close()
