"""Vectors are computed in the background, in batches, whatever the embedding does; nothing waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import structlog

from runtime.memory.indexing.embedding_queue import BATCH, SHARE_OF_A_BATCH, EmbeddingQueue
from runtime.search.embedding.embedder import EmbeddedTexts, Embedder
from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.errors import EmbeddingMismatch, EmbeddingUnavailable, IndexFailed
from runtime.search.index import open_index
from runtime.search.index.index import Index
from tests.clocks import ManualClock, until

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Scripted(Embedder):
    """An embedding that returns the same vector for every text, or raises the given error."""

    name = "scripted"

    def __init__(self, model: str = "one", dimension: int = 4, *, known: bool = True) -> None:
        self.model = model
        self.batches: list[int] = []
        self.error: Exception | None = None
        self.hold = asyncio.Event()
        self.hold.set()
        self._size = dimension
        self._known = dimension if known else None

    @property
    def dimension(self) -> int | None:
        return self._known

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        await self.hold.wait()
        if self.error is not None:
            raise self.error
        self.batches.append(len(texts))
        self._known = self._size
        rows = np.zeros((len(texts), self._size), dtype=np.float32)
        rows[:, 0] = 1
        return rows


class Tokenizing(Scripted):
    """An embedding that offers token bits."""

    def __init__(self, version: str = "1") -> None:
        super().__init__()
        self.token_bits = version

    async def embed_with_tokens(self, texts: Sequence[str]) -> EmbeddedTexts:
        return EmbeddedTexts(await self.embed(texts), [str(self.token_bits).encode() for _ in texts])


class Slow(Scripted):
    """An embedding that takes some seconds for a batch."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._clock.advance(self._seconds)
        return await super().embed(texts)


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[Index]:
    opened = await open_index(None, tmp_path / "index.db", {})
    yield opened
    await opened.close()


@pytest.fixture
def queue(index: Index, clock: ManualClock) -> EmbeddingQueue:
    return EmbeddingQueue(index, clock)


async def fill(index: Index, count: int, part: str = "p") -> None:
    entries = [
        IndexEntry(
            id=f"{part}-{number}",
            agent="a",
            user="owner",
            project=None,
            type="semantic",
            time=datetime(2026, 2, 14, tzinfo=UTC),
            source=None,
            tags=(),
            text=f"text {part} {number}",
            hash=str(number),
            author=None,
            group="",
            order=number,
            part=part,
        )
        for number in range(count)
    ]
    await index.put(part, "a", "1", entries)


async def embedded(index: Index) -> int:
    return (await index.stats()).embedded


@pytest.fixture
async def keeping(queue: EmbeddingQueue) -> AsyncIterator[asyncio.Task[None]]:
    """The background task, which starts when the test first waits."""
    task = asyncio.create_task(queue.keep())
    yield task
    task.cancel()
    await asyncio.wait({task})


async def test_everything_is_embedded_in_small_batches(queue: EmbeddingQueue, index: Index) -> None:
    await fill(index, 2 * BATCH + 3)
    embedder = Scripted()
    await queue.use(embedder)
    told: list[tuple[str, int, int]] = []
    assert await queue.embed(progress=lambda *said: told.append(said)) == 2 * BATCH + 3
    assert embedder.batches == [BATCH, BATCH, 3]
    assert (told[0], told[-1]) == (("embedding", 0, 2 * BATCH + 3), ("embedding", 2 * BATCH + 3, 2 * BATCH + 3))
    assert await queue.embed() == 0


async def test_who_waits_waits_for_small_batches_and_for_no_more_of_them_than_the_time_allows(
    queue: EmbeddingQueue, index: Index, clock: ManualClock
) -> None:
    await fill(index, BATCH)
    embedder = Slow(clock, seconds=0.6)
    await queue.use(embedder)
    small = BATCH // SHARE_OF_A_BATCH
    assert await queue.embed(seconds=1.0) == await embedded(index) == 2 * small
    assert embedder.batches == [small, small]
    assert await queue.embed() == BATCH - 2 * small


async def test_token_bits_that_are_missing_are_made_and_counted_as_progress(
    queue: EmbeddingQueue, index: Index
) -> None:
    await fill(index, BATCH + 3)
    await queue.use(Scripted())
    await queue.embed()
    await fill(index, 2, part="q")
    embedder = Tokenizing()
    await queue.use(embedder)
    told: list[tuple[str, int, int]] = []
    assert await queue.embed(progress=lambda *said: told.append(said)) == BATCH + 5
    assert (told[0], told[-1]) == (("embedding", 0, BATCH + 5), ("embedding", BATCH + 5, BATCH + 5))
    assert (await index.stats())[1::4] == (BATCH + 5, BATCH + 5)
    assert await queue.embed() == 0


async def test_the_background_makes_the_token_bits_of_another_version_again(
    queue: EmbeddingQueue, index: Index, keeping: asyncio.Task[None]
) -> None:
    await fill(index, 3)
    await queue.use(Tokenizing())
    await _until_tokenized(index, 3)
    embedder = Tokenizing("2")
    await queue.use(embedder)
    assert (await index.stats()).embedded == 3
    await _until_tokenized(index, 3)
    found = await index.nearest(np.ones(4, np.float32), EntryFilter(), 3)
    assert list(await index.tokens(found.keys)) == [b"2"] * 3
    assert embedder.batches == [3]


async def test_without_an_embedding_nothing_is_embedded(queue: EmbeddingQueue, index: Index) -> None:
    await fill(index, 3)
    await queue.use(None)
    assert (await queue.embed(), await embedded(index), queue.problem) == (0, 0, None)


async def test_the_background_embeds_what_there_is_and_what_comes(
    queue: EmbeddingQueue, index: Index, keeping: asyncio.Task[None]
) -> None:
    await fill(index, 3)
    await queue.use(Scripted())
    await _until_embedded(index, 3)
    await fill(index, 2, "q")
    queue.more()
    await _until_embedded(index, 5)
    assert not keeping.done()


async def test_an_embedding_that_is_away_is_said_once_and_asked_later_and_later(
    queue: EmbeddingQueue, index: Index, clock: ManualClock, keeping: asyncio.Task[None]
) -> None:
    await fill(index, 3)
    embedder = Scripted()
    embedder.error = EmbeddingUnavailable("ollama cannot be reached")
    with structlog.testing.capture_logs() as logs:
        await queue.use(embedder)
        for seconds in (1, 2, 4):
            await until(lambda: clock.sleepers == 1)
            assert queue.problem == "ollama cannot be reached"
            clock.advance(seconds - 0.5)
            await asyncio.sleep(0)
            assert clock.sleepers == 1
            clock.advance(0.5)
            await until(lambda: clock.sleepers == 0)
        await until(lambda: clock.sleepers == 1)
        embedder.error = None
        clock.advance(8)
        await _until_embedded(index, 3)
        await until(lambda: queue.problem is None)
    assert [each["log_level"] for each in logs] == ["warning", "info"]


async def test_an_embedding_that_answers_something_else_is_asked_no_more_until_it_is_changed(
    queue: EmbeddingQueue, index: Index, clock: ManualClock, keeping: asyncio.Task[None]
) -> None:
    await fill(index, 3)
    embedder = Scripted()
    embedder.error = EmbeddingMismatch("768 numbers were declared and 4 came")
    await queue.use(embedder)
    await until(lambda: queue.mismatch is not None)
    embedder.error = None
    queue.more()
    await asyncio.sleep(0.02)
    assert (await embedded(index), clock.sleepers) == (0, 0)
    await queue.use(Scripted("two"))
    await _until_embedded(index, 3)
    assert (queue.mismatch, queue.problem) == (None, None)


async def test_another_model_embeds_everything_again(queue: EmbeddingQueue, index: Index) -> None:
    await fill(index, 3)
    await queue.use(Scripted("one", 4))
    await queue.embed()
    await queue.use(Scripted("one", 4))
    assert await queue.embed() == 0, "it is the same model"
    await queue.use(Scripted("two", 8))
    assert await embedded(index) == 0
    assert await queue.embed() == 3
    assert (await index.stats())[2:4] == ("two", 8)


async def test_a_model_may_know_its_dimension_only_from_its_first_answer(queue: EmbeddingQueue, index: Index) -> None:
    await fill(index, 2 * BATCH)
    await queue.use(Scripted("late", 8, known=False))
    assert await queue.embed() == 2 * BATCH
    assert (await index.stats())[1:4] == (2 * BATCH, "late", 8)


async def test_what_is_under_way_is_dropped_when_the_embedding_is_changed(
    queue: EmbeddingQueue, index: Index, keeping: asyncio.Task[None]
) -> None:
    await fill(index, 3)
    slow = Scripted("slow")
    slow.hold.clear()
    await queue.use(slow)
    await asyncio.sleep(0.02)
    await fill(index, 2, "q")
    queue.more()
    quick = Scripted("quick")
    await queue.use(quick)
    slow.hold.set()
    await _until_embedded(index, 5)
    assert ((await index.stats()).model, slow.batches, sum(quick.batches)) == ("quick", [], 5)
    assert not keeping.done()


async def test_a_new_embedding_does_not_wait_for_the_next_try_of_the_old_one(
    queue: EmbeddingQueue, index: Index, clock: ManualClock, keeping: asyncio.Task[None]
) -> None:
    await fill(index, 3)
    away, back = Scripted("away"), Scripted("back")
    away.error = EmbeddingUnavailable("ollama cannot be reached")
    await queue.use(away)
    for seconds in (1, 2, 4):
        await until(lambda: clock.sleepers == 1)
        clock.advance(seconds)
        await until(lambda: clock.sleepers == 0)
    await until(lambda: clock.sleepers == 1)
    await queue.use(back)
    await _until_embedded(index, 3)
    assert (back.batches, queue.problem) == ([3], None)


async def test_an_index_that_fails_is_tried_again(
    queue: EmbeddingQueue,
    index: Index,
    clock: ManualClock,
    keeping: asyncio.Task[None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await fill(index, 3)
    real = index.embed

    async def full(*_given: Any) -> int:
        raise IndexFailed("the disk is full")

    monkeypatch.setattr(index, "embed", full)
    await queue.use(Scripted())
    await until(lambda: clock.sleepers == 1)
    assert queue.problem == "the disk is full"
    monkeypatch.setattr(index, "embed", real)
    clock.advance(1)
    await _until_embedded(index, 3)


async def _until_embedded(index: Index, wanted: int) -> None:
    async with asyncio.timeout(30):
        while await embedded(index) != wanted:
            await asyncio.sleep(0.005)


async def _until_tokenized(index: Index, wanted: int) -> None:
    async with asyncio.timeout(30):
        while (await index.stats()).tokenized != wanted:
            await asyncio.sleep(0.005)
