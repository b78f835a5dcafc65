"""The index in the daemon itself: one SQLite file for each store, searched in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from sqlite3 import Connection
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from runtime.search.entry import EVERY_ENTRY, EntryFilter, IndexEntry
from runtime.search.index.embedded import writes
from runtime.search.index.embedded.access import Access, Apply, T
from runtime.search.index.embedded.in_memory import IndexInMemory
from runtime.search.index.index import (
    AppendedEntries,
    Index,
    IndexChange,
    IndexPlace,
    IndexStats,
    Neighbours,
    PendingEntry,
    ScoredEntries,
    WordMatches,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EmbeddedOptions(BaseModel):
    """The embedded index has no options."""

    model_config = ConfigDict(frozen=True, extra="forbid")


async def open_embedded(place: IndexPlace, _options: BaseModel) -> Index:
    """Open the index of this row and read the file into memory. Raises IndexFailed."""
    access = Access(place.path, place.key)
    try:
        await access.open()
    except BaseException:
        await access.close()
        raise
    return EmbeddedIndex(access)


class EmbeddedIndex(Index):
    """Composed of `access` (threads and faults), `writes` (the file) and `in_memory` (the memory)."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._model: str | None = None
        self._dimension: int | None = None
        self._token_bits: str | None = None

    @property
    def rebuilt(self) -> int:
        return self._access.rebuilt

    async def reseal(self, key: bytes) -> None:
        await self._access.reseal(key)

    async def parts(self, agent: str | None = None, names: Collection[str] | None = None) -> Mapping[str, str]:
        return await self._access.read(lambda loaded: loaded.parts(agent, names))

    async def put(self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]) -> IndexChange:
        return await self._change(writes.put, part, agent, revision, entries)

    async def append(self, appended: Sequence[AppendedEntries]) -> list[bool]:
        return await self._change(writes.append, appended)

    async def drop(self, parts: Sequence[str]) -> int:
        return await self._change(writes.drop, parts)

    async def _change(self, change: Callable[..., tuple[T, writes.Delta]], *given: object) -> T:
        """Change entries by one of the functions of `writes`."""

        def work(loaded: IndexInMemory) -> tuple[T, Apply]:
            result, delta = change(loaded.file.writing, loaded.rows, *given)
            return result, lambda loaded: loaded.apply(delta)

        return await self._access.write(work)

    async def clear(self) -> None:
        await self._access.clear()

    async def use_model(self, model: str | None, dimension: int | None, token_bits: str | None = None) -> None:
        self._model, self._dimension = model, dimension

        if model is not None and await self._access.read(lambda loaded: loaded.has_other_vectors(model, dimension)):
            await self._forget(writes.forget_vectors, IndexInMemory.forget_vectors)
        self._token_bits = version = None if model is None else token_bits
        if version is not None and await self._access.read(lambda loaded: loaded.token_bits not in {None, version}):
            await self._forget(writes.forget_tokens, IndexInMemory.forget_tokens)

    async def _forget(self, in_file: Callable[[Connection], None], in_memory: Apply) -> None:
        def work(loaded: IndexInMemory) -> tuple[None, Apply]:
            in_file(loaded.file.writing)
            return None, in_memory

        await self._access.write(work)

    async def pending(self, limit: int) -> Sequence[PendingEntry]:
        if self._model is None:
            return ()
        version = self._token_bits
        return await self._access.read(lambda loaded: loaded.pending(limit, version))

    async def embed(
        self, vectors: Sequence[tuple[PendingEntry, NDArray[np.float32]]], tokens: Sequence[bytes] | None = None
    ) -> int:
        model, version = self._model, self._token_bits
        if model is None or not vectors:
            return 0

        def work(loaded: IndexInMemory) -> tuple[int, Apply]:
            connection, dimension = loaded.file.writing, self._dimension or loaded.dimension
            keys, kept = writes.embed(connection, loaded.rows, model, dimension, vectors)
            if tokens is None or version is None:
                return len(keys), lambda loaded: loaded.embed(keys, kept, model)
            waiting = [pending for pending, _ in vectors]
            tokenized = writes.put_tokens(connection, loaded.rows, version, waiting, tokens)

            def apply(loaded: IndexInMemory) -> None:
                loaded.embed(keys, kept, model)
                loaded.put_tokens(tokenized, version)

            return len(keys), apply

        return await self._access.write(work)

    async def keyword(self, words: Sequence[str], wanted: EntryFilter, limit: int) -> WordMatches:
        return await self._access.read(lambda loaded: loaded.keyword(words, wanted, limit))

    async def nearest(
        self, vector: NDArray[np.float32], wanted: EntryFilter, limit: int, also: NDArray[np.int64] | None = None
    ) -> ScoredEntries:
        return await self._access.read(lambda loaded: loaded.nearest(vector, wanted, limit, also))

    async def tokens(self, keys: NDArray[np.int64]) -> Sequence[bytes | None]:
        version = self._token_bits
        return await self._access.read(lambda loaded: loaded.tokens(keys, version))

    async def neighbours(self, keys: NDArray[np.int64]) -> Neighbours:
        return await self._access.read_memory(lambda loaded: loaded.neighbours(keys))

    async def entries(self, keys: Sequence[int]) -> Mapping[int, IndexEntry]:
        return await self._access.read(lambda loaded: loaded.entries(keys))

    async def newest(
        self, wanted: EntryFilter, limit: int, before: tuple[datetime, str] | None = None, begins: str = ""
    ) -> Sequence[IndexEntry]:
        return await self._access.read(lambda loaded: loaded.newest(wanted, limit, before, begins))

    async def authors(self, wanted: EntryFilter) -> Sequence[str]:
        return await self._read_function(wanted)(lambda loaded: loaded.authors(wanted))

    async def stats(self, wanted: EntryFilter = EVERY_ENTRY) -> IndexStats:
        version = self._token_bits
        return await self._read_function(wanted)(lambda loaded: loaded.stats(wanted, version))

    async def close(self) -> None:
        await self._access.close()

    def _read_function(self, wanted: EntryFilter) -> Callable[[Callable[[IndexInMemory], T]], Awaitable[T]]:
        """Return the function for reads of the memory alone, or also of the file if the filter needs it."""
        in_file = wanted.tags_any or wanted.tags_all or wanted.source is not None
        return self._access.read if in_file else self._access.read_memory
