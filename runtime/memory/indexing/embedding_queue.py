"""Creates missing vectors and token bits, batch by batch from the index's own queue, so that no write waits for an
embedding."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from runtime.clock import SYSTEM, Clock
from runtime.memory.event_wait import happens
from runtime.memory.indexing.progress import Progress
from runtime.search.embedding.embedder import Embedder
from runtime.search.errors import EmbeddingMismatch, EmbeddingUnavailable, IndexFailed
from runtime.search.index.index import Index, IndexStats

log = structlog.get_logger("symbiont.memory")

BATCH: Final = 64
"""Texts in one call of the embedding; it uses smaller batches if a query would have to wait."""
SHARE_OF_A_BATCH: Final = 8
"""The fraction of a batch that is embedded at once while a search waits."""
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 300.0
LONGEST_WAIT_FOR_AN_INDEX: Final = 30.0
"""Seconds until the next try after embedding or storing vectors failed, doubled each time; longer for an embedding on a
server than for an index."""


class EmbeddingQueue:
    """The entries of an index that wait for vectors, and the embedding in use."""

    def __init__(self, index: Index, clock: Clock = SYSTEM) -> None:
        self._index = index
        self._clock = clock
        self._embedder: Embedder | None = None
        self._model_in_index: tuple[str, int | None, str | None] | None = None
        self._wake = asyncio.Event()
        self._renewed = asyncio.Event()
        self._batch_lock = asyncio.Lock()
        self._batch: asyncio.Task[int] | None = None
        self._mismatch: str | None = None
        self._failure: str | None = None
        self._index_failed = False
        self.switched_off: str | None = None
        """Reason why nothing is embedded before the next start, in one line; waiting entries are embedded then."""

    @property
    def problem(self) -> str | None:
        """Return why nothing is embedded at the moment, in one line."""
        return self._mismatch or self._failure or self.switched_off

    @property
    def mismatch(self) -> str | None:
        """Return the problem that a person must fix before embedding continues."""
        return self._mismatch

    @property
    def embedder(self) -> Embedder | None:
        """Return the embedding in use."""
        return self._embedder

    def more(self) -> None:
        """Note that there may be something to embed."""
        self._wake.set()

    async def use(self, embedder: Embedder | None) -> None:
        """Use this embedding from now on; vectors of another model are created again. The running batch is cancelled,
        so that the previous embedding can be closed."""
        changed = embedder is not self._embedder
        # Before waiting: a batch that `keep` begins meanwhile must use the new embedding.
        self._embedder = embedder
        self._mismatch = self._failure = None
        self._model_in_index = None
        if changed and self._batch is not None:
            self._batch.cancel()
            await asyncio.wait({self._batch})
        try:
            await self._set_model()
        except IndexFailed as error:
            self._index_failed = True
            self._fail(error.line())  # The model is set again before the next batch.
        self._renewed.set()
        self._wake.set()

    @property
    def _at_once(self) -> int:
        return BATCH if self._embedder is None else self._embedder.at_once

    async def embed(self, progress: Progress | None = None, *, seconds: float | None = None) -> int:
        """Create what is missing; return for how many entries. With `seconds`, no batch begins after that time, and
        batches are small because a search waits. Raises EmbeddingUnavailable, EmbeddingMismatch, IndexFailed."""
        if self._embedder is None or self.switched_off:
            return 0
        done = 0
        stats = await self._index.stats() if progress is not None else None
        total = 0 if stats is None else stats.entries - self._finished_entries(stats)
        began, at_once = self._clock.monotonic(), self._at_once
        if seconds is not None:
            at_once = max(1, at_once // SHARE_OF_A_BATCH)
        while seconds is None or self._clock.monotonic() - began < seconds:
            if progress is not None:
                progress("embedding", min(done, total), total)
            made = await self._next(at_once)
            done += made
            if not made:
                break
        return done

    def _finished_entries(self, stats: IndexStats) -> int:
        """Return the number of entries that have everything the embedding makes."""
        wants_tokens = self._embedder is not None and self._embedder.token_bits is not None
        return min(stats.embedded, stats.tokenized) if wants_tokens else stats.embedded

    async def keep(self) -> None:
        """Embed everything that is or becomes pending, for ever; wait longer after each failure, until `use`."""
        wait = FIRST_WAIT
        while True:
            self._wake.clear()
            self._renewed.clear()
            try:
                await self._set_model()
                done = 0 if self._mismatch or self.switched_off else await self._next(self._at_once)
            except EmbeddingMismatch:
                continue
            except (EmbeddingUnavailable, IndexFailed) as error:
                self._index_failed = isinstance(error, IndexFailed)
                self._fail(error.line())
                longest = LONGEST_WAIT_FOR_AN_INDEX if self._index_failed else LONGEST_WAIT
                wait = min(wait, longest)
                renewed = await happens(self._renewed, wait, self._clock)
                wait = FIRST_WAIT if renewed else min(wait * 2, longest)
                continue
            wait = FIRST_WAIT
            if done or self._index_failed:
                self._note_recovery()
            if done:
                await asyncio.sleep(0)
            else:
                await self._wake.wait()

    async def _next(self, limit: int) -> int:
        """Embed one batch; a running one finishes first. The batch is a task of its own, so that `use` can cancel
        it."""
        async with self._batch_lock:
            embedder = self._embedder
            if embedder is None:
                return 0
            self._batch = asyncio.create_task(self._embed(embedder, limit), name="embedding")
            try:
                await asyncio.wait({self._batch})
            except asyncio.CancelledError:
                self._batch.cancel()
                await asyncio.wait({self._batch})
                raise
            batch, self._batch = self._batch, None
            return 0 if batch.cancelled() else batch.result()

    async def _embed(self, embedder: Embedder, limit: int) -> int:
        try:
            await self._set_model()
            waiting = await self._index.pending(limit)
            if not waiting:
                return 0
            made = await embedder.embed_with_tokens([each.text for each in waiting])
            await self._set_model()  # some embeddings know their dimension only now
            return await self._index.embed(list(zip(waiting, made.vectors, strict=True)), made.tokens)
        except EmbeddingMismatch as error:
            if self._mismatch is None:
                log.error("embedding_stopped", embedding=embedder.name, reason=error.line())
            self._mismatch = error.line()
            raise

    async def _set_model(self) -> None:
        embedder = self._embedder
        model = ("", None, None) if embedder is None else (embedder.model, embedder.dimension, embedder.token_bits)
        if model != self._model_in_index:
            await self._index.use_model(model[0] or None, model[1], model[2])
            self._model_in_index = model

    def _fail(self, reason: str) -> None:
        if self._failure is None:
            log.warning("embedding_unavailable", reason=reason)
        self._failure = reason

    def _note_recovery(self) -> None:
        if self._failure is not None:
            log.info("embedding_recovered")
        self._failure = None
        self._index_failed = False
