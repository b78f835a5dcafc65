"""The index on a Qdrant server: vectors and payload in a collection there, words in a file here.

Qdrant (https://qdrant.tech/documentation/) has a point for each entry with a vector, with the universal payload, and
answers `nearest` with every filter on its side. Everything derived from words is in an embedded index, so that the same
filters give the same hits as without Qdrant; instead of vectors it has only marks (`sync_state`). Token bits are there
too: those of the best candidates are read at every search, and nothing else on the server is searched by them.

Several daemons on one database share one collection: a point's content follows from the store, so each daemon creates
missing points, adopts existing ones, and leaves unknown ones alone for a while, because another daemon may have made
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog

from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.errors import IndexFailed
from runtime.search.index.embedded.access import Access
from runtime.search.index.embedded.index import EmbeddedIndex
from runtime.search.index.index import AppendedEntries, IndexChange, IndexStats, Pending, Scored
from runtime.search.index.qdrant.client import AT_ONCE, Collection, CollectionGone
from runtime.search.index.qdrant.point import payload_of, point_id
from runtime.search.index.qdrant.sync_state import SyncState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = structlog.get_logger("symbiont.index")

AWAY_SECONDS: Final = 10.0
"""Seconds after a failed call during which changes are not sent while a caller waits; they are sent later."""

GRACE_SECONDS: Final = 600.0
"""Seconds that an unknown point is left alone: another daemon may have just made it, or the store has not been read
again yet."""


class QdrantIndex(EmbeddedIndex):
    """Words and marks are in the embedded index; nearest vectors are searched in the collection."""

    def __init__(self, access: Access, collection: Collection, warning: str | None = None) -> None:
        super().__init__(access)
        self._collection = collection
        self._warning = warning
        self._sync_state = SyncState(access, collection.shown)
        self._dirty = False
        self._flushing = False  # stale points are being fixed now, and this may fail
        self._prepared: tuple[str, int] | None = None
        self._one = asyncio.Lock()
        self._away_until = 0.0
        self._look_again: float | None = None
        self._owned_model: tuple[str, int] | None = None
        """The model that the collection itself names: its points may be adopted."""
        self._failure: str | None = None

    async def read_marks(self) -> None:
        """Read the marks of points."""
        self._dirty = await self._sync_state.open()

    @property
    def problem(self) -> str | None:
        return self._failure

    async def reachable(self) -> str | None:
        async with self._recording_failures():
            await self._collection.look()
        warned = "" if self._warning is None else f"; {self._warning}"
        return f"{self._collection.shown} answers{warned}"

    async def put(self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]) -> IndexChange:
        change, stale = await self._sync_state.put(part, agent, revision, entries)
        await self._tell(stale)
        return change

    async def grow_each(self, grown: Sequence[AppendedEntries]) -> list[bool]:
        done, stale = await self._sync_state.grow_each(grown)
        await self._tell(stale)
        return done

    async def drop(self, parts: Sequence[str]) -> int:
        gone, stale = await self._sync_state.drop(parts)
        await self._tell(stale)
        return gone

    async def clear(self) -> None:
        async with self._recording_failures(), self._one:
            await self._collection.forget(known=await self._sync_state.are_there())
            self._prepared = None
            await super().clear()
            self._dirty = await self._sync_state.open()

    async def use_model(self, model: str | None, dimension: int | None, token_bits: str | None = None) -> None:
        self._model, self._dimension = model, dimension
        if model is not None and await self._sync_state.others_than(model, dimension):
            # Their points are deleted when the collection is prepared for the new model, before any query.
            await self._sync_state.forget()
            self._prepared = None
        await self._use_tokens(None if model is None else token_bits)

    async def tend(self) -> None:
        if self._stale or await self._sync_state.count() or (self._model is not None and self._prepared is None):
            async with self._recording_failures():
                await self._ready(None)
                if self._prepared is None:
                    await self._collection.look()

    async def embedded(
        self, vectors: Sequence[tuple[Pending, NDArray[np.float32]]], tokens: Sequence[bytes] | None = None
    ) -> int:
        from runtime.search.index.embedded.matrix import unit

        model, version = self._model, self._token_bits
        if model is None or not vectors:
            return 0
        rows = unit([vector for _, vector in vectors], self._dimension or self._sync_state.dimension)
        dimension = int(rows.shape[1])
        async with self._recording_failures():
            await self._ready(dimension)
            async with self._one:
                waiting = [pending for pending, _ in vectors]
                entries, done, token = await self._sync_state.intend(waiting)
                try:
                    await self._collection.upsert(
                        [
                            (point_id(pending.id), row, payload_of(entries[pending.id]))
                            for pending, row in zip(waiting, rows, strict=True)
                            if pending.id in entries
                        ]
                    )
                except BaseException:
                    self._dirty = True
                    raise
                if self._model != model:
                    self._dirty = True
                    return 0
                if made := [pending for pending in waiting if pending.id in entries]:
                    done += await self._sync_state.mark(made, model, dimension, token)
                if tokens is not None and version is not None:
                    await self._sync_state.put_tokens(waiting, tokens, version)
                return done

    async def nearest(
        self, vector: NDArray[np.float32], wanted: EntryFilter, limit: int, also: NDArray[np.int64] | None = None
    ) -> Scored:
        import numpy as np

        from runtime.search.index.embedded.matrix import unit

        known = self._sync_state.dimension or self._dimension
        query = unit(np.asarray(vector, np.float32)[None], known)[0]
        async with self._recording_failures():
            await self._ready(None)
            if not await self._sync_state.count():
                await self._collection.look()
                return Scored(np.zeros(0, np.int64), np.zeros(0, np.float32))
            besides = [] if also is None else [point_id(name) for name in await self._sync_state.ids(also)]
            hidden = [point_id(name) for name in await self._sync_state.hidden(wanted)]
            try:
                found = await self._collection.nearest(query, wanted, limit, besides, hidden)
            except CollectionGone:
                self._prepared = None
                await self._ready(None)
                found = []
            scored, there = await self._sync_state.keyed(found, wanted)
            if len(scored.keys) < min(limit, there):
                await self._doubt()
        return scored

    async def stats(self, agent: str | None = None, user: str | None = None) -> IndexStats:
        return self._sync_state.index_stats(await super().stats(agent, user))

    async def close(self) -> None:
        await self._collection.close()
        await super().close()

    # Synchronization of the collection.

    @property
    def _stale(self) -> bool:
        """True if the collection may have stale points."""
        return self._dirty or self._flushing

    async def _tell(self, stale: bool) -> None:
        """Send changes to the server if that is possible at once; otherwise `tend` does it later."""
        self._dirty |= stale
        if not self._stale or asyncio.get_running_loop().time() < self._away_until:
            return
        with contextlib.suppress(IndexFailed):
            async with self._recording_failures():
                await self._ready(None)

    async def _ready(self, dimension: int | None) -> None:
        """Bring the collection in line with the marks: it exists, with this dimension (None: the known one), without
        stale points, and with as many points as marks if it was not checked before."""
        model, dimension = self._model, dimension or self._sync_state.dimension or self._dimension
        wanted = None if model is None or dimension is None else (model, dimension)
        if self._look_again is not None and asyncio.get_running_loop().time() > self._look_again:
            self._prepared = self._look_again = None
        if not self._stale and self._prepared is not None and self._prepared == (wanted or self._prepared):
            return
        async with self._one:
            if wanted is not None and self._prepared != wanted:
                ours = await self._collection.prepare(*wanted, known=await self._sync_state.are_there())
                self._owned_model = wanted if ours else None
            await self._flush()
            if wanted is not None and self._prepared != wanted:
                await self._verify()
                await self._flush()
                self._prepared = wanted

    async def _flush(self) -> None:
        """Fix stale points until there are none."""
        while self._dirty:
            self._dirty, self._flushing = False, True
            try:
                stale = await self._sync_state.stale(AT_ONCE)
                payloads = {point_id(one.id): payload_of(one.entry) for one in stale if one.entry is not None}
                await self._repair([point_id(one.id) for one in stale if one.entry is None], payloads)
                await self._sync_state.settled(stale)
                self._dirty |= len(stale) > 0
            except BaseException:
                self._dirty = True
                raise
            finally:
                self._flushing = False

    async def _repair(self, delete: Sequence[str], payloads: dict[str, dict[str, Any]]) -> None:
        try:
            await self._collection.repair(delete, payloads)
        except CollectionGone:
            if await self._collection.look() is None:
                return await self._lost()
            await self._compare()

    async def _verify(self) -> None:
        """Compare the numbers, and everything if they differ: a server may have been restored or emptied, and a file
        here lost."""
        known, points = await self._sync_state.count(), await self._collection.count()
        if known == points:
            return
        log.info("index_compared", where=self._collection.shown, points=points, known=known)
        await (self._compare() if points else self._lost())

    async def _lost(self) -> None:
        """Handle a missing collection: everything is embedded again."""
        await self._sync_state.forget()
        self._work()

    async def _compare(self) -> None:
        """Compare all points: correct ones are marked, different ones written again, missing ones embedded again,
        and points of no entry are deleted eventually."""
        there: set[str] = set()
        strays: set[str] = set()
        offset: Any = None
        while True:
            points, offset = await self._collection.page(offset)
            said = {one: payload for name, payload in points if point_id(one := str(payload.get("memory_id"))) == name}
            known = await self._sync_state.known(said.keys())
            good = {one for one, (entry, _) in known.items() if said[one].get("chunk_hash") == entry.hash}
            there |= good - await self._adopt([known[one][0] for one in good if not known[one][1]])
            await self._sync_state.mistrust(
                {one for one, (entry, _) in known.items() if payload_of(entry) != said[one]}
            )
            own = {point_id(one) for one in known}
            strays |= {name for name, _ in points if name not in own}
            if offset is None:
                break
        due = await self._sync_state.strays(strays, time.time(), GRACE_SECONDS)
        for begin in range(0, len(due), AT_ONCE):
            await self._collection.repair(due[begin : begin + AT_ONCE], {})
        if len(due) < len(strays):
            self._look_again = asyncio.get_running_loop().time() + GRACE_SECONDS
        if await self._sync_state.missing(there):
            self._work()
        self._dirty = True

    async def _adopt(self, entries: Sequence[IndexEntry]) -> set[str]:
        """Adopt existing points of these entries; return those that cannot be."""
        if not entries or self._owned_model is None or self._owned_model[0] != self._model:
            return {entry.id for entry in entries}
        waiting = [Pending(entry.id, entry.hash, "") for entry in entries]
        await self._sync_state.mark(waiting, *self._owned_model, 0)
        return set()

    async def _doubt(self) -> None:
        """Check that the points still exist, after a search found fewer than expected."""
        if await self._collection.count() < await self._sync_state.count():
            self._prepared = None
            self._work()

    def _work(self) -> None:
        if self.on_work is not None:
            self.on_work()

    @contextlib.asynccontextmanager
    async def _recording_failures(self) -> AsyncIterator[None]:
        """Record if the server executes the calls inside."""
        try:
            yield
        except IndexFailed as error:
            if self._failure is None:
                log.warning("index_unavailable", reason=error.line())
            self._failure = error.line()
            self._prepared = None
            self._away_until = asyncio.get_running_loop().time() + AWAY_SECONDS
            self._work()
            raise
        if self._failure is not None:
            log.info("index_recovered", where=self._collection.shown)
            self._failure = None
            self._away_until = 0.0
            self._work()
