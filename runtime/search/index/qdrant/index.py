"""The index on a Qdrant server: entries, words and vectors in one collection. No data of it is on this machine.

Qdrant (https://qdrant.tech/documentation/) has a point for each entry, with its words as a sparse vector, its embedding
as another vector and the rest as payload, and answers every question with every filter on its side. Each part has a
point too, without vectors, that contains its revision.

There are no transactions: the revision of a part is written after its entries, and then these are counted, so that an
interrupted or overtaken write is repeated. Several daemons on one database share the collection.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Collection as Items
from dataclasses import replace
from datetime import datetime
from math import log, log1p
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import structlog

from runtime.search.entry import EVERY_ENTRY, EntryFilter, IndexEntry
from runtime.search.errors import IndexFailed
from runtime.search.index.embedded.matrix import unit
from runtime.search.index.embedded.schema import microseconds
from runtime.search.index.embedded.tokenizer import Tokenizer
from runtime.search.index.index import (
    WHOLE_ID,
    AppendedEntries,
    Index,
    IndexChange,
    IndexStats,
    Neighbours,
    PendingEntry,
    ScoredEntries,
    WordMatches,
)
from runtime.search.index.qdrant import point
from runtime.search.index.qdrant.client import Collection, CollectionGone, models_of
from runtime.search.index.qdrant.neighbourhood import Neighbourhood
from runtime.search.index.qdrant.point import EMPTY, Payload, filter_of, key_of, part_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
_CHANGING: Final = ("memory_id", "agent_id", "user_id", "subject", "replaces", "retracts")
_NEIGHBOUR: Final = ("before", "after", "author", "time", "asks", "words")
_log = structlog.get_logger("symbiont.index")


class QdrantIndex(Index):
    """The collection of one memory. One write at a time is done by one daemon."""

    def __init__(self, collection: Collection, warning: str | None = None) -> None:
        self._collection = collection
        self._warning = warning
        self._tokenizer = Tokenizer()
        self._neighbourhood = Neighbourhood(collection)
        self._writing = asyncio.Lock()
        self._preparing = asyncio.Lock()
        self._prepared = False
        self._known = False
        self._rebuilt = 0
        self._model: str | None = None
        self._dimension: int | None = None
        self._token_bits: str | None = None
        self._failure: str | None = None
        self._closed = False

    @property
    def problem(self) -> str | None:
        return self._failure

    @property
    def rebuilt(self) -> int:
        return self._rebuilt

    async def reachable(self) -> str | None:
        await self._run(self._collection.info, prepare=False)
        warned = "" if self._warning is None else f"; {self._warning}"
        return f"{self._collection.shown} answers{warned}"

    # Writing.

    async def parts(self, agent: str | None = None, names: Items[str] | None = None) -> Mapping[str, str]:
        async def work() -> Mapping[int, Payload]:
            if names is not None:
                return await self._collection.payloads(list(map(part_key, names)))
            among = models_of().Filter(must_not=[point.empty("part_name")])
            if agent is not None:
                among = models_of().Filter(must=[point.equal("part_agent", agent)])
            return await self._collection.scroll(among)

        return {each["part_name"]: each["part_revision"] for each in (await self._run(work)).values()}

    async def put(self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]) -> IndexChange:
        async def work() -> IndexChange:
            fresh = {key_of(entry.id): replace(entry, part=part) for entry in entries}
            there = await self._collection.scroll(filter_of(EVERY_ENTRY, point.equal("part", part)))
            gone = {key: payload for key, payload in there.items() if key not in fresh}
            changed = await self._merge(fresh, there, gone)
            await self._note(part, agent, revision)
            of_part = filter_of(EVERY_ENTRY, point.equal("part", part))
            if await self._collection.count(of_part) != len(fresh):
                raise IndexFailed(f"{self._collection.shown}: another daemon wrote the part at the same time")
            return IndexChange(changed, len(fresh) - changed, len(gone))

        return await self._write(work)

    async def append(self, appended: Sequence[AppendedEntries]) -> list[bool]:
        async def work() -> list[bool]:
            done = []
            for part, agent, before, after, entries in appended:
                found = await self._collection.payloads([part_key(part)])
                done.append(found.get(part_key(part), {}).get("part_revision") == before)
                if done[-1]:
                    fresh = {key_of(entry.id): replace(entry, part=part) for entry in entries}
                    await self._merge(fresh)
                    await self._note(part, agent, after)
            return done

        return await self._write(work)

    async def drop(self, parts: Sequence[str]) -> int:
        async def work() -> int:
            fields = ("memory_id", "time", "neighbour_group")
            gone = await self._collection.scroll(filter_of(EVERY_ENTRY, point.one_of("part", parts)), fields)
            await self._neighbourhood.update(gone.values(), gone)
            await self._delete([*gone, *map(part_key, parts)])
            return len(gone)

        return await self._write(work) if parts else 0

    async def clear(self) -> None:
        async def work() -> None:
            await self._collection.delete_all()
            self._prepared = self._known = False

        async with self._writing:
            await self._run(work, prepare=False)

    async def _write(self, work: Callable[[], Awaitable[T]]) -> T:
        async with self._writing:
            return await self._run(work)

    async def _merge(
        self,
        fresh: Mapping[int, IndexEntry],
        there: Mapping[int, Payload] = EMPTY,
        gone: Mapping[int, Payload] = EMPTY,
    ) -> int:
        """Write entries that are new, changed or moved, and delete others; return how many were new or changed."""
        models = models_of()
        for entry in fresh.values():
            self._check(entry)
        there = {**await self._collection.payloads([key for key in fresh if key not in there]), **there}
        operations: list[Any] = []
        touched: list[Payload] = list(gone.values())
        changed = 0
        for key, entry in fresh.items():
            before = there.get(key, EMPTY)
            if before and point.entry_of(before) == entry:
                if "context" not in before:  # An interrupted write.
                    touched.append(before)
                continue
            same_text = before.get("chunk_hash") == entry.hash
            payload = point.payload_of(entry, before if same_text else EMPTY)
            changed += not before or not _has_same_content(before, entry)
            touched += [before, payload] if before else [payload]
            if same_text:  # The embedding stays.
                overwritten = models.SetPayload(payload=payload, points=[key])
                operations.append(models.OverwritePayloadOperation(overwrite_payload=overwritten))
            else:
                made = models.PointStruct(id=key, vector={}, payload=payload)
                operations.append(models.UpsertOperation(upsert=models.PointsList(points=[made])))
        await self._collection.change(operations)
        await self._neighbourhood.update(touched, gone)
        await self._delete(list(gone))
        return changed

    def _check(self, entry: IndexEntry) -> None:
        try:
            "".join((entry.id, entry.text, entry.rest, entry.author or "", *entry.tags)).encode()
        except UnicodeEncodeError as error:
            raise IndexFailed(f"{self._collection.shown} refuses text that is not valid Unicode") from error

    async def _note(self, part: str, agent: str, revision: str) -> None:
        models = models_of()
        payload = point.part_payload(part, agent, revision)
        made = models.PointStruct(id=part_key(part), vector={}, payload=payload)
        await self._collection.change([models.UpsertOperation(upsert=models.PointsList(points=[made]))])

    async def _delete(self, keys: Sequence[int]) -> None:
        if keys:
            models = models_of()
            await self._collection.change([models.DeleteOperation(delete=models.PointIdsList(points=list(keys)))])

    # Embeddings.

    async def use_model(self, model: str | None, dimension: int | None, token_bits: str | None = None) -> None:
        self._model, self._dimension, self._token_bits = model, dimension, token_bits
        if model is not None and dimension is not None:
            await self._write(self._use_dimension)

    async def _use_dimension(self) -> None:
        if self._dimension is not None:
            await self._collection.use_dimension(self._dimension)

    async def _labels(self) -> tuple[str | None, str | None]:
        """Return the labels of embeddings of the model in use and of token bits of the version in use; None: none are
        wanted, or the dimension is unknown yet."""
        dimension = self._dimension or await self._collection.dimension()
        if self._model is None or dimension is None:
            return None, None
        label = f"{self._model}/{dimension}"
        return label, None if self._token_bits is None else f"{self._token_bits} of {label}"

    async def pending(self, limit: int) -> Sequence[PendingEntry]:
        if self._model is None:
            return ()

        async def work() -> list[PendingEntry]:
            label, version = await self._labels()
            without = point.without(point.equal("embedding", label or ""))
            found = list((await self._collection.newest(filter_of(EVERY_ENTRY, without), limit)).values())
            if label is not None and version is not None and len(found) < limit:
                embedded = point.equal("embedding", label)
                without = point.without(point.equal("token_version", version))
                wanted = filter_of(EVERY_ENTRY, embedded, without)
                found += (await self._collection.newest(wanted, limit - len(found))).values()
            return [PendingEntry(each["memory_id"], each["chunk_hash"], each["text"]) for each in found]

        return await self._run(work)

    async def embed(
        self, vectors: Sequence[tuple[PendingEntry, NDArray[np.float32]]], tokens: Sequence[bytes] | None = None
    ) -> int:
        if self._model is None or not vectors:
            return 0

        async def work() -> int:
            models = models_of()
            rows = unit([vector for _, vector in vectors], self._dimension or await self._collection.dimension())
            await self._collection.use_dimension(int(rows.shape[1]))
            label, version = await self._labels()
            known = await self._collection.payloads([key_of(each.id) for each, _ in vectors], ["chunk_hash"])
            operations: list[Any] = []
            for at, (each, _) in enumerate(vectors):
                key = key_of(each.id)
                if known.get(key, {}).get("chunk_hash") != each.hash:
                    continue
                made = models.PointVectors(id=key, vector={point.NEAREST: rows[at].tolist()})
                payload: dict[str, Any] = {"embedding": label}
                if tokens is not None and version is not None:
                    payload |= {"tokens": b64encode(tokens[at]).decode(), "token_version": version}
                given = models.SetPayload(payload=payload, points=[key])
                operations.append(models.UpdateVectorsOperation(update_vectors=models.UpdateVectors(points=[made])))
                operations.append(models.SetPayloadOperation(set_payload=given))
            await self._collection.change(operations)
            return len(operations) // 2

        return await self._write(work)

    # Questions.

    async def keyword(self, words: Sequence[str], wanted: EntryFilter, limit: int) -> WordMatches:
        nothing = WordMatches(np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.float32), {})
        phrases = self._tokenizer.phrases(words)
        if not phrases:
            return nothing

        async def work() -> WordMatches:
            scope = EntryFilter(agent=wanted.agent, user=wanted.user)
            terms = list(map(point.phrase_terms, phrases))
            counts = [
                filter_of(scope),
                *(filter_of(scope, *(point.equal("terms", one) for one in each)) for each in terms),
            ]
            entries, *holding = await asyncio.gather(*map(self._collection.count, counts))
            odds = [(max(entries - count, 0) + 0.5) / (count + 0.5) for count in holding]
            weights = [log1p(each) for each in odds]
            rarity = {
                one: max(log(each), 1e-6) / len(its)
                for its, each, count in zip(terms, odds, holding, strict=True)
                for one in its
                if count
            }
            matched = nothing._replace(weights=self._tokenizer.word_weights(weights, words))
            if not rarity or limit < 1:
                return matched
            # A phrase has several terms, of which a text may have some.
            whole = [models_of().Filter(must=[point.equal("terms", one) for one in each]) for each in terms if each]
            either = models_of().Filter(should=whole)
            hidden = await self._hidden_keys(wanted)
            found = await self._collection.by_words(rarity, filter_of(wanted, either, hidden=hidden), limit)
            had = [
                sum(
                    weight * min(*(shares.get(one, 0.0) for one in its), 1)
                    for its, weight in zip(terms, weights, strict=True)
                )
                for _, _, shares in found
            ]
            return matched._replace(
                keys=np.array([key for key, *_ in found], np.int64),
                scores=np.array([score for _, score, _ in found], np.float32),
                shares=np.array(had, np.float32) / np.float32(sum(weights)),
            )

        return await self._run(work)

    async def nearest(
        self, vector: NDArray[np.float32], wanted: EntryFilter, limit: int, also: NDArray[np.int64] | None = None
    ) -> ScoredEntries:
        async def work() -> list[tuple[int, float]]:
            dimension = await self._collection.dimension()
            query = unit(np.asarray(vector, np.float32)[None], self._dimension or dimension)[0]
            if dimension is None or dimension != len(query):
                return []
            label, _ = await self._labels()
            embedded = point.without(point.empty("embedding")) if label is None else point.equal("embedding", label)
            hidden = await self._hidden_keys(wanted)
            keys = [] if also is None else also.tolist()
            others = filter_of(wanted, embedded, point.among(keys), hidden=hidden) if keys else None
            within = filter_of(wanted, embedded, hidden=hidden)
            return await self._collection.nearest(query.tolist(), within, limit, others, len(keys))

        found = await self._run(work)
        keys = np.array([key for key, _ in found], np.int64)
        return ScoredEntries(keys, np.array([score for _, score in found], np.float32))

    async def _hidden_keys(self, wanted: EntryFilter) -> list[int]:
        """Return the points of the hidden entries that the filter leaves out."""
        if not wanted.current:
            return []
        models = models_of()
        either = models.Filter(should=[point.without(point.empty(name)) for name in ("replaces", "retracts")])
        scope = EntryFilter(agent=wanted.agent, user=wanted.user)
        changes = await self._collection.scroll(filter_of(scope, either), _CHANGING)
        names = {each.get(name) for each in changes.values() for name in ("replaces", "retracts")} - {None}
        changed = await self._collection.payloads([key_of(str(name)) for name in names], _CHANGING)
        return point.hidden_keys(list(changes.values()), changed)

    async def tokens(self, keys: NDArray[np.int64]) -> Sequence[bytes | None]:
        async def work() -> list[bytes | None]:
            _, version = await self._labels()
            found = await self._collection.payloads(keys.tolist(), ["tokens", "token_version"]) if version else {}
            fits = {key: each for key, each in found.items() if each.get("token_version") == version}
            return [b64decode(fits[key]["tokens"]) if key in fits else None for key in keys.tolist()]

        return await self._run(work)

    async def neighbours(self, keys: NDArray[np.int64]) -> Neighbours:
        found = await self._run(lambda: self._collection.payloads(keys.tolist(), _NEIGHBOUR))
        rows = [found.get(key, {}) for key in keys.tolist()]
        authors = list(dict.fromkeys(row["author"] for row in rows if "author" in row))
        numbers = {author: at for at, author in enumerate(authors)}
        before, after, time, words = (
            np.array([row.get(name, 0) for row in rows], np.int64) for name in ("before", "after", "time", "words")
        )
        author = np.array([numbers.get(row.get("author"), -1) for row in rows], np.int64)
        asks = np.array([row.get("asks", False) for row in rows], np.bool_)
        return Neighbours(before, after, author, time, asks, words, authors)

    async def entries(self, keys: Sequence[int]) -> Mapping[int, IndexEntry]:
        wanted = [key for key in keys if key > 0]
        found = await self._run(lambda: self._collection.payloads(wanted))
        return {key: point.entry_of(found[key]) for key in wanted if "memory_id" in found.get(key, {})}

    async def newest(
        self, wanted: EntryFilter, limit: int, before: tuple[datetime, str] | None = None, begins: str = ""
    ) -> Sequence[IndexEntry]:
        async def work() -> dict[int, dict[str, Any]]:
            hidden = await self._hidden_keys(wanted)
            if len(begins) == WHOLE_ID:
                return await self._collection.scroll(filter_of(wanted, point.among([key_of(begins)]), hidden=hidden))
            if begins:
                return await self._collection.scroll(filter_of(wanted, hidden=hidden))
            return await self._newest(wanted, hidden, limit, before)

        found = [point.entry_of(payload) for payload in (await self._run(work)).values()]
        found = [one for one in found if one.id.startswith(begins)]
        if before is not None:
            found = [one for one in found if (one.time, one.id) < before]
        return sorted(found, key=lambda one: (one.time, one.id), reverse=True)[:limit]

    async def _newest(
        self, wanted: EntryFilter, hidden: Sequence[int], limit: int, before: tuple[datetime, str] | None
    ) -> dict[int, dict[str, Any]]:
        """Return the newest entries, with all of the times of the first and the last of them: ids order those."""

        async def at(time: int) -> dict[int, dict[str, Any]]:
            return await self._collection.scroll(filter_of(wanted, point.equal("time", time), hidden=hidden))

        found: dict[int, dict[str, Any]] = {}
        more: list[Any] = []
        if before is not None:
            time = microseconds(before[0])
            found = await at(time)
            more = [models_of().FieldCondition(key="time", range=models_of().Range(lt=time))]
        older = await self._collection.newest(filter_of(wanted, *more, hidden=hidden), limit)
        if len(older) == limit:
            found |= await at(min(each["time"] for each in older.values()))
        return found | older

    async def authors(self, wanted: EntryFilter) -> Sequence[str]:
        async def work() -> list[str]:
            hidden = await self._hidden_keys(wanted)
            return sorted(await self._collection.values("author", filter_of(wanted, hidden=hidden)))

        return await self._run(work)

    async def stats(self, wanted: EntryFilter = EVERY_ENTRY) -> IndexStats:
        async def work() -> IndexStats:
            hidden = await self._hidden_keys(wanted)
            label, version = await self._labels()
            embedded = point.without(point.empty("embedding")) if label is None else point.equal("embedding", label)
            counts = [filter_of(wanted, *more, hidden=hidden) for more in ((), (embedded,))]
            if version is not None:
                counts.append(filter_of(wanted, embedded, point.equal("token_version", version), hidden=hidden))
            entries, vectors, *tokenized = await asyncio.gather(*map(self._collection.count, counts))
            if not vectors:
                return IndexStats(entries, 0, None, None, 0)
            dimension = await self._collection.dimension()
            return IndexStats(entries, vectors, self._model, dimension, 0, *tokenized)

        return await self._run(work)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._collection.close()
            self._tokenizer.close()
            self._neighbourhood.close()

    async def _run(self, work: Callable[[], Awaitable[T]], *, prepare: bool = True) -> T:
        """Return the result of `work` on the prepared collection, and remember if the server answers."""
        if self._closed:
            raise IndexFailed(f"the index in {self._collection.shown} is closed")
        try:
            try:
                result = await self._on_collection(work, prepare)
            except CollectionGone:
                self._prepared = False
                result = await self._on_collection(work, prepare)
        except IndexFailed as error:
            if self._failure is None:
                _log.warning("index_unavailable", reason=error.line())
            self._failure = error.line()
            self._prepared = False
            raise
        if self._failure is not None:
            _log.info("index_recovered", where=self._collection.shown)
            self._failure = None
        return result

    async def _on_collection(self, work: Callable[[], Awaitable[T]], prepare: bool) -> T:
        async with self._preparing:
            if prepare and not self._prepared:
                if await self._collection.prepare() and self._known:
                    self._rebuilt += 1
                    _log.warning("index_rebuilt", where=self._collection.shown, reason="the collection was gone")
                if self._dimension is not None and self._model is not None:
                    await self._collection.use_dimension(self._dimension)
                self._prepared = self._known = True
        return await work()


def _has_same_content(payload: Payload, entry: IndexEntry) -> bool:
    """True if only the position of the entry differs from that of the point."""
    names = ("part", "line", "order", "rest")
    known = point.entry_of(payload)
    return all(
        getattr(known, name) == getattr(entry, name) for name in IndexEntry.__dataclass_fields__ if name not in names
    )
