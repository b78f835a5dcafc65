"""An open memory: the store of a declared block, the index over it, and one way to search both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from dslc.blocks.memory import Memory
from runtime.clock import SYSTEM, Clock
from runtime.errors import SymbiontError
from runtime.memory.collection.store import CollectionStore
from runtime.memory.errors import FsyncFailed, NoSuchItem, StoreError, Unsupported
from runtime.memory.indexing.background import background_tasks
from runtime.memory.indexing.entries import item_of, place_of
from runtime.memory.indexing.indexer import Indexer, Start
from runtime.memory.indexing.progress import Progress, SyncReport
from runtime.memory.item import Item
from runtime.memory.store import Store
from runtime.memory.store_types import Compaction, ItemLocation, Scan, UpsertResult
from runtime.models.calls.call import BACKGROUND, CallOwner
from runtime.models.client import ModelClient
from runtime.search.embedding.embedder import Embedder
from runtime.search.engine import SearchAnswer, search
from runtime.search.entry import ALL_SUBJECTS, EntryFilter, WantedSubject
from runtime.search.errors import EmbeddingMismatch, EmbeddingUnavailable, IndexFailed
from runtime.search.index.index import IndexStats
from runtime.search.question import Question

__all__ = ["FoundHit", "FoundItems", "OpenMemory", "Progress", "SyncReport"]

log = structlog.get_logger("symbiont.memory")

_BY_KEYWORD: Final = ", so searches use keywords only"
CATCH_UP_SECONDS: Final = 2.0
"""Seconds that a search waits for its agent's parts while the index is built in the background; or, without a
background task, for vectors."""


class FoundHit(NamedTuple):
    """A found item with the scores of `runtime.search.engine.Hit`, and its location if it still exists."""

    item: Item
    score: float
    parts: Mapping[str, float]
    relevance: float
    cosine: float | None
    keyword_share: float
    place: ItemLocation | None


class FoundItems(NamedTuple):
    """Hits, best first, and notes for the caller about how they were found, one line each."""

    hits: tuple[FoundHit, ...]
    notes: tuple[str, ...]


class OpenMemory:
    """A memory of a program, open. The store and the index are shared by all blocks that declare the same; the weights,
    the retention and the embedding are its own."""

    def __init__(
        self,
        block: Memory,
        indexer: Indexer,
        embedder: Embedder | None,
        *,
        folder: Path | None,
        clock: Clock = SYSTEM,
        store_options: Mapping[str, object] | None = None,
        index_problem: str | None = None,
        embedding_problem: str | None = None,
        summarizer: ModelClient | None = None,
        summarizer_problem: str | None = None,
        not_embedded: str | None = None,
    ) -> None:
        """`folder`: of the store's files, or None. `summarizer`: the model that writes summaries. The problems say in
        one line why the index, the embedding or the summarizer is not the declared one; `not_embedded`, why nothing is
        embedded now although there is an embedding."""
        self.name = block.name
        self.block = block
        self.folder = folder
        self._indexer = indexer
        self._embedder = embedder
        self._clock = clock
        self._options = block.store.options if store_options is None else store_options
        self._index_problem = index_problem
        self._embedding_problem = embedding_problem
        self._not_embedded = not_embedded
        self.summarizer = summarizer
        self.summarizer_problem = summarizer_problem
        self._not_compacted: dict[str, str] = {}
        self._catching_up: set[asyncio.Task[SyncReport]] = set()

    @property
    def store(self) -> Store:
        """Return the store of its items."""
        return self._indexer.store

    @property
    def collection(self) -> CollectionStore | None:
        """Return its store if that is a collection, else None."""
        return self.store if isinstance(self.store, CollectionStore) else None

    @property
    def indexer(self) -> Indexer:
        """Return the indexer, which keeps the index in step with the store."""
        return self._indexer

    @property
    def embedder(self) -> Embedder | None:
        """Return the embedding, or None if searches use keywords only. The caller does not close it."""
        return self._embedder

    @property
    def embedding(self) -> str | None:
        """Return the row of the embedding in use, such as `local`; None if searches use keywords only."""
        return None if self._embedder is None else self._embedder.name

    @property
    def for_tests(self) -> bool:
        """True if the vectors of the embedding in use have no meaning."""
        return self._embedder is not None and self._embedder.for_tests

    @property
    def not_opened(self) -> tuple[str, ...]:
        """Return the parts that could not be opened as declared, one line each."""
        return tuple(filter(None, (self._index_problem, self._embedding_problem, self.summarizer_problem)))

    @property
    def problems(self) -> tuple[str, ...]:
        """Return the current problems, one line each."""
        return (*self.not_opened, *self._indexer.problems, *self._not_compacted.values())

    @property
    def unread(self) -> tuple[str, ...]:
        """Return the unreadable parts, one line each."""
        return self._indexer.unread

    @property
    def not_compacted(self) -> tuple[str, ...]:
        """Return the problems of the last compaction, one line for each agent."""
        return tuple(self._not_compacted.values())

    @property
    def index_problem(self) -> str | None:
        """Return why the index is incomplete or not the declared one."""
        return self._indexer.index_problem or self._index_problem

    @property
    def embedding_problem(self) -> str | None:
        """Return why there is no embedding, or why nothing can be embedded at the moment."""
        return self._embedding_problem or self._indexer.queue.problem

    async def activate(self, start: Start | None = None, *, name: str | None = None) -> None:
        """Apply this block: its store's options, its embedding. `start` runs the tasks that keep the index in step;
        without it every search does that itself. `name`: in the names of the tasks, by default the memory's."""
        self.store.configure(self._options)
        self._indexer.queue.switched_off = None if self._embedder is None else self._not_embedded
        await self._indexer.queue.use(self._embedder)
        if start is not None:
            name = self.name if name is None else name
            self._indexer.start_background(start, background_tasks(name, self._indexer, self.folder, self._clock))

    async def search(
        self, question: Question, progress: Progress | None = None, *, owner: CallOwner = BACKGROUND
    ) -> FoundItems:
        """Return the best matching items. Everything written before the call is searched, a person's edits included.
        `progress` reports the work on the index if no background task does it. `owner`: for whom the question is
        embedded.

        Raises IndexFailed if the index cannot be read.
        """
        weights = self.block.search
        question = question.with_weights(weights.vector_weight, weights.keyword_weight)
        notes = await self.catch_up(question.wanted.agent, progress)
        if not self._indexer.in_background:
            await self._embed_some(progress)
        without = self._indexer.queue.mismatch or (self._embedding_problem or "").replace(_BY_KEYWORD, "")
        if not without:
            answer = await search(self._indexer.index, self._embedder, question, owner=owner)
        else:
            answer = await search(self._indexer.index, None, question, without=without)
        return FoundItems(await self._found_hits(answer), (*notes, *answer.notes))

    async def _embed_some(self, progress: Progress | None) -> None:
        try:
            await self._indexer.queue.embed(progress, seconds=CATCH_UP_SECONDS)
        except (EmbeddingUnavailable, EmbeddingMismatch, IndexFailed) as error:
            log.debug("embedding_incomplete", reason=error.line())

    async def catch_up(self, agent: str | None, progress: Progress | None = None) -> list[str]:
        """Bring the index of an agent, or of all, up to date before a search; return what it still lacks, one line
        each."""
        if not self._indexer.in_background:
            return list((await self._indexer.sync(agent, progress)).problems)
        task = asyncio.create_task(self._indexer.sync(agent), name=f"index of {self.name} before a search")
        self._catching_up.add(task)
        task.add_done_callback(self._catching_up.discard)
        done, _ = await asyncio.wait({task}, timeout=CATCH_UP_SECONDS)
        if not done:
            return ["the index is still being built: not all items are searched yet"]
        return list(task.result().problems)

    async def _found_hits(self, answer: SearchAnswer) -> tuple[FoundHit, ...]:
        items = [item_of(hit.entry) for hit in answer.hits]
        stale = self._indexer.failure is not None
        places = [
            None if stale or self._indexer.is_unreadable(hit.entry.part) else place_of(hit.entry) for hit in answer.hits
        ]
        unknown = [item for item, place in zip(items, places, strict=True) if place is None]
        located = await self._locations(unknown) if unknown else {}
        return tuple(
            FoundHit(
                item,
                hit.score,
                hit.parts,
                hit.relevance,
                hit.cosine,
                hit.keyword_share,
                place or located.get(item.memory_id),
            )
            for item, hit, place in zip(items, answer.hits, places, strict=True)
        )

    async def _locations(self, items: Sequence[Item]) -> Mapping[str, ItemLocation]:
        try:
            return await self.store.locate(items)
        except FsyncFailed:
            raise
        except StoreError:
            return {}

    async def sync(self, agent_id: str | None = None, progress: Progress | None = None) -> SyncReport:
        """Bring the index up to date with the store, for one agent or for all. Vectors follow in the background, or by
        `embed`. Unreadable parts and failures of the index are in the report; they are not raised."""
        return await self._indexer.sync(agent_id, progress)

    async def embed(self, progress: Progress | None = None) -> int:
        """Make the missing vectors; return how many. Raises EmbeddingUnavailable, EmbeddingMismatch, IndexFailed."""
        return await self._indexer.queue.embed(progress)

    async def reindex(self, agent_id: str | None = None, progress: Progress | None = None) -> SyncReport:
        """Delete the index of one agent or of all, and rebuild it from the store with its vectors; the report says why
        some are missing. Raises IndexFailed."""
        await self._indexer.forget(agent_id)
        # A reload may have replaced this memory's own embedding.
        embedder = self._indexer.queue.embedder
        if embedder is not None:
            embedder.renew()
            await self._indexer.queue.use(embedder)
        report = await self._indexer.sync(agent_id, progress)
        if embedder is not None and self._not_embedded is not None:
            return report._replace(problems=(*report.problems, self._not_embedded))
        try:
            return report._replace(embedded=await self.embed(progress=progress))
        except (EmbeddingUnavailable, EmbeddingMismatch) as error:
            return report._replace(problems=(*report.problems, error.line()))

    async def compact(self, agent_id: str, now: datetime) -> Compaction:
        """Promote marked bullets of logs to long-term memory, and delete logs older than the declared retention.

        The problems name the parts that could not be compacted. Raises Unsupported, StoreError.
        """
        if self.folder is None and "retention" not in self.block.model_fields_set:
            # A collection is not reduced unless its block has a retention.
            older_than = date.min
        else:
            older_than = (now.astimezone(UTC) - self.block.retention).date()
        try:
            done = await self.store.compact(agent_id, older_than=older_than)
        except Unsupported:
            raise
        except StoreError as error:
            self._not_compacted[agent_id] = f"the memory of {agent_id} was not compacted: {error.line()}"
            raise
        self._not_compacted.pop(agent_id, None)
        if done.problems:
            files = ", ".join(problem.file for problem in done.problems)
            self._not_compacted[agent_id] = f"compacting the memory of {agent_id} left as they are: {files}"
        await self._indexer.sync(agent_id)
        return done

    async def remove(self, agent_id: str) -> bool:
        """Delete everything of this agent, from the index too; True if there was anything. Raises Unsupported,
        StoreError."""
        there_was = await self.store.remove(agent_id)
        await self._indexer.sync(agent_id)
        return there_was

    async def forget_user(self, user_id: str, agent_id: str | None = None) -> tuple[int, tuple[str, ...]]:
        """Delete everything of a user, for one agent or for all, from the index too. Returns the number of items, and
        why some may still be in the index. Raises StoreError if something could not be deleted."""
        try:
            count = await self.store.forget_user(user_id, agent_id=agent_id)
        finally:
            problems = (await self._indexer.sync(agent_id)).problems
        return count, tuple(dict.fromkeys(problems))

    async def upsert(self, items: Iterable[Item], *, keep: frozenset[str] = frozenset()) -> UpsertResult:
        """Do `Store.upsert`; the index follows in the background."""
        return await self.store.upsert(items, keep=keep)

    async def replace(self, item: Item) -> Item:
        """Do `Store.replace`; the index follows."""
        kept = await self.store.replace(item)
        await self._update_index(kept.agent_id)
        return kept

    async def edit(self, memory_id: str, text: str, agent_id: str) -> Item:
        """Do `Store.edit`; the index follows."""
        edited = await self.store.edit(memory_id, text, agent_id=agent_id)
        await self._update_index(agent_id)
        return edited

    async def forget(self, memory_id: str, agent_id: str) -> None:
        """Delete one item; the index follows. Raises NoSuchItem, Unsupported, StoreError."""
        await self.store.delete(memory_id, agent_id=agent_id)
        await self._update_index(agent_id)

    async def forget_each(self, items: Sequence[Item]) -> list[bool]:
        """Delete these items together; the index follows. Returns for each False if it was gone already. Raises
        Unsupported, and after the deletion of the others StoreError for an item that could not be deleted."""
        deletions = (self.store.delete(item.memory_id, agent_id=item.agent_id) for item in items)
        outcomes = await asyncio.gather(*deletions, return_exceptions=True)
        for agent_id in sorted({item.agent_id for item in items}):
            await self._update_index(agent_id)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, NoSuchItem):
                raise outcome
        return [outcome is None for outcome in outcomes]

    async def _update_index(self, agent_id: str) -> None:
        """Remove from the index what the store no longer has, in the background if possible."""
        if self._indexer.in_background:
            self._indexer.mark_changed((agent_id,))
        else:
            await self._indexer.sync(agent_id)

    async def find(self, memory_id: str, user: str | None, subject: WantedSubject = ALL_SUBJECTS) -> Item | None:
        """Return the item with this id that belongs to `user` (None: to any user) and the subject, of any agent. Raises
        StoreError."""
        wanted = Scan(memory_ids=frozenset({memory_id}), user_id=user, subject=subject, limit=1)
        return await anext(self.store.scan(wanted), None)

    async def finish(self) -> None:
        """Wait for tasks that searches started; then the store and the index may be closed."""
        await asyncio.gather(*self._catching_up, return_exceptions=True)

    async def index_stats(self, agent_id: str | None = None) -> IndexStats:
        """Return the size of the index, for one agent or for all. Raises IndexFailed."""
        return await self._indexer.index.stats(EntryFilter(agent=agent_id))

    async def close(self) -> None:
        """Close the store, the index, the embedding and the model, if nothing else uses them."""
        await self.finish()
        await self._indexer.close()
        await self.store.close()
        if self._embedder is not None:
            await self._embedder.close()
        if self.summarizer is not None:
            await self.summarizer.close()


def no_embedding(name: str | None, error: SymbiontError) -> str:
    """Return the reason why a memory has no embedding, in one line."""
    return f"the embedding {name} cannot be used{_BY_KEYWORD}: {error.line()}"


def no_model(name: str, reason: str) -> str:
    """Return the reason why a memory has no model for summaries, in one line."""
    return f"the model {name} cannot be used, so summaries are written without a model: {reason}"
