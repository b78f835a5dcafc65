"""A memory that is open: the store of a declared block, the index over it, and one way to search both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from dslc.blocks import Memory
from runtime.clock import SYSTEM, Clock
from runtime.memory.item import Item
from runtime.memory.store import Compaction, Place, Store
from runtime.search.entry import Filter
from runtime.search.index.index import IndexStats
from runtime.search.question import EVERYTHING, Question

Progress = Callable[[str, int, int], None]
"""Is told what is being done (`reading`, `embedding`), how much of it is done, and how much there is."""


class FoundHit(NamedTuple):
    """An item that was found: its score, what each part of the search added to it, and where it stands, if it still
    does."""

    item: Item
    score: float
    parts: Mapping[str, float]
    place: Place | None


class Found(NamedTuple):
    """Hits, best first, and one line for each thing that the caller should know about how they were found."""

    hits: tuple[FoundHit, ...]
    notes: tuple[str, ...]


class SyncReport(NamedTuple):
    """What bringing the index up to date did.

    `parts` that there are, and how many of them were `read`; entries that were `changed` (new ones among them),
    `removed` and `embedded`; one line for each part that could not be read and for what the index could not do.
    """

    parts: int
    read: int
    changed: int
    removed: int
    embedded: int
    problems: tuple[str, ...]


class OpenMemory:
    """What a program's memory became. The store and the index belong to whoever else declares the same; the weights,
    the retention and the embedding are this one's."""

    name: str
    block: Memory
    store: Store
    embedding: str | None
    """The row of the embedding in use, such as `local`; None: searched by keyword only."""

    def question(
        self,
        text: str,
        *,
        now: datetime,
        limit: int = 10,
        wanted: Filter = EVERYTHING,
        vector_weight: float | None = None,
        keyword_weight: float | None = None,
    ) -> Question:
        """What is asked, with the declared weights where none are given. Raises UsageError as `Question` does."""
        raise NotImplementedError

    async def search(self, question: Question) -> Found:
        """The items that answer best. What was written before the call, by us or by a person, is searched too.

        Raises IndexFailed when the index cannot be read.
        """
        raise NotImplementedError

    async def sync(self, agent_id: str | None = None, progress: Progress | None = None) -> SyncReport:
        """Bring the index up to date with the store, of one agent or of all; vectors come later, in the background, or
        with `embed`. Nothing is raised for a part that cannot be read or an index that cannot be written: the report
        says so."""
        raise NotImplementedError

    async def embed(self, limit: int | None = None, progress: Progress | None = None) -> int:
        """Make vectors of up to `limit` entries that have none; how many. Raises EmbeddingUnavailable,
        EmbeddingMismatch, IndexFailed."""
        raise NotImplementedError

    async def reindex(self, agent_id: str | None = None, progress: Progress | None = None) -> SyncReport:
        """Forget what the index holds, of one agent or of all, and build it again from the store, vectors too."""
        raise NotImplementedError

    async def compact(self, agent_id: str, now: datetime) -> Compaction:
        """Put what logs hold for the long term where it stays, and delete logs older than the declared retention.

        Raises Unsupported, StoreError.
        """
        raise NotImplementedError

    async def remove(self, agent_id: str) -> bool:
        """Delete everything this agent remembers, from the index too; whether there was anything. Raises Unsupported,
        StoreError."""
        raise NotImplementedError

    async def index_stats(self, agent_id: str | None = None) -> IndexStats:
        """How much the index holds, of all agents or of one. Raises IndexFailed."""
        raise NotImplementedError

    @property
    def problems(self) -> tuple[str, ...]:
        """What does not work as declared just now, one line each."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of what `open_memory` opened."""
        raise NotImplementedError


async def open_memory(
    block: Memory,
    root: Path,
    *,
    index_folder: Path | None,
    clock: Clock = SYSTEM,
    store_options: Mapping[str, object] | None = None,
    embedding_options: Mapping[str, object] | None = None,
    index_options: Mapping[str, object] | None = None,
) -> OpenMemory:
    """Open what `block` declares, without a daemon; relative paths are under `root`. The caller closes it.

    `index_folder`: where the index's file is; None keeps the index in memory. The options are the block's own unless
    given, with secrets resolved. Raises UsageError.
    """
    raise NotImplementedError
