"""An open index in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel

from dslc.blocks.values.secret import is_reference
from runtime.errors import UsageError
from runtime.search.entry import EVERY_ENTRY, EntryFilter, IndexEntry
from runtime.search.index.embedded.schema import about
from runtime.search.index.embedded.tokenizer import Tokenizer
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
from runtime.search.index.postgres import keyword_search, queries, vector_search, writes
from runtime.search.index.postgres.connections import IndexConnections
from runtime.search.index.postgres.errors import index_error
from runtime.search.index.postgres.options import PostgresOptions
from runtime.search.index.postgres.text import to_postgres_or_none
from runtime.secrets.secret import Secret

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray


async def open_postgres(place: IndexPlace, options: BaseModel) -> Index:
    """Open the index of this row. Makes no call: an unreachable server is tried again at each use. Raises UsageError
    for an unresolved or invalid URL."""
    assert isinstance(options, PostgresOptions)
    url: object = options.url
    if isinstance(url, Secret):
        url = url.reveal().decode(errors="replace")
    assert isinstance(url, str)
    if is_reference(url):
        raise UsageError("the url of the index postgres could not be resolved", hint="check that the secret is set")
    schema = options.schema_ or f"symbiont_{place.name}"[:63]
    server = IndexConnections(url, schema, place.name, pool=options.pool, seconds=options.timeout.total_seconds())
    return PostgresIndex(server, options)


class PostgresIndex(Index):
    """Composed of `connections`, `writes`, `keyword_search`, `vector_search` and `queries`."""

    def __init__(self, server: IndexConnections, options: PostgresOptions) -> None:
        self.server = server
        self._options = options
        self._tokenizer = Tokenizer()
        self._splitter = Tokenizer()
        """Splits texts that are written, also in a thread; one call at a time."""
        self._splitting = asyncio.Lock()
        self._model: str | None = None
        self._dimension: int | None = None
        self._token_version: str | None = None

    async def versions(self) -> str:
        """Return the versions of PostgreSQL and pgvector."""
        server = await self.server.query(lambda connection: connection.fetchval("SHOW server_version"))
        return f"PostgreSQL {server}, pgvector {'.'.join(map(str, self.server.tables.vector))}"

    async def reachable(self) -> str | None:
        await self.server.query(lambda connection: connection.execute("SELECT"))
        return f"{self.server.shown}, schema {self.server.schema}"

    async def parts(self, agent: str | None = None, names: Collection[str] | None = None) -> Mapping[str, str]:
        return await self.server.query(lambda connection: queries.parts(connection, agent, names))

    async def put(self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]) -> IndexChange:
        fresh = await self._new_entries(part, entries)
        return await self.server.write(lambda connection: writes.put(connection, part, agent, revision, fresh))

    async def append(self, appended: Sequence[AppendedEntries]) -> list[bool]:
        fresh = [await self._new_entries(part, entries) for part, *_, entries in appended]

        async def work(connection: Any) -> list[bool]:
            return [
                await writes.append(connection, part, agent, before, after, new)
                for (part, agent, before, after, _), new in zip(appended, fresh, strict=True)
            ]

        return await self.server.write(work)

    async def drop(self, parts: Sequence[str]) -> int:
        return await self.server.write(lambda connection: writes.drop(connection, parts))

    async def clear(self) -> None:
        await self.server.write(writes.clear)

    async def use_model(self, model: str | None, dimension: int | None, token_bits: str | None = None) -> None:
        self._model, self._dimension = to_postgres_or_none(model), dimension
        # Bits belong to the model, whatever the version is called.
        self._token_version = None if token_bits is None else to_postgres_or_none(f"{token_bits} of {model}")
        if self._model is not None:
            given = self._model, dimension, self._token_version
            await self.server.write(lambda connection: writes.use_model(connection, *given))

    async def pending(self, limit: int) -> Sequence[PendingEntry]:
        if self._model is None:
            return ()
        return await self.server.read(lambda connection: queries.pending(connection, limit, self._token_version))

    async def embed(
        self, vectors: Sequence[tuple[PendingEntry, NDArray[np.float32]]], tokens: Sequence[bytes] | None = None
    ) -> int:
        model, version = self._model, self._token_version
        if model is None or not vectors:
            return 0
        return await self.server.write(
            lambda connection: writes.embed(
                connection, self.server.tables.vector, model, self._dimension, vectors, tokens, version
            )
        )

    async def keyword(self, words: Sequence[str], wanted: EntryFilter, limit: int) -> WordMatches:
        return await self.server.query(
            lambda connection: keyword_search.keyword(connection, self._tokenizer, words, wanted, limit)
        )

    async def nearest(
        self, vector: NDArray[np.float32], wanted: EntryFilter, limit: int, also: NDArray[np.int64] | None = None
    ) -> ScoredEntries:
        async def work(connection: Any) -> ScoredEntries:
            known = await queries.meta(connection)
            stored_model = known.get(queries.MODEL)
            dimension = None if stored_model is None else int(known[queries.DIMENSION])
            if self._model not in {None, stored_model}:
                dimension = None  # Another daemon uses another model.
            version = self.server.tables.vector
            return await vector_search.nearest(
                connection, self._options, version, dimension, vector, wanted, limit, also
            )

        return await self.server.read(work)

    async def tokens(self, keys: NDArray[np.int64]) -> Sequence[bytes | None]:
        version = self._token_version
        if version is None:
            return [None] * len(keys)
        return await self.server.query(lambda connection: queries.tokens(connection, version, keys))

    async def neighbours(self, keys: NDArray[np.int64]) -> Neighbours:
        return await self.server.query(lambda connection: queries.neighbours(connection, keys))

    async def entries(self, keys: Sequence[int]) -> Mapping[int, IndexEntry]:
        return await self.server.query(lambda connection: queries.entries(connection, keys))

    async def newest(
        self, wanted: EntryFilter, limit: int, before: tuple[datetime, str] | None = None, begins: str = ""
    ) -> Sequence[IndexEntry]:
        return await self.server.read(lambda connection: queries.newest(connection, wanted, limit, before, begins))

    async def authors(self, wanted: EntryFilter) -> Sequence[str]:
        return await self.server.query(lambda connection: queries.authors(connection, wanted))

    async def stats(self, wanted: EntryFilter = EVERY_ENTRY) -> IndexStats:
        given = self.server.schema, wanted, self._token_version
        return await self.server.read(lambda connection: queries.stats(connection, *given))

    async def close(self) -> None:
        await self.server.close()
        self._tokenizer.close()
        self._splitter.close()

    async def _new_entries(self, part: str, entries: Sequence[IndexEntry]) -> dict[str, writes.NewEntry]:
        self.server.check()
        texts = [text for entry in entries for text in (entry.text, about(entry.author, entry.time))]

        def work() -> dict[str, writes.NewEntry]:
            words = self._splitter.split(texts)
            return writes.new_entries(entries, zip(words[::2], words[1::2], strict=True), part)

        try:
            async with self._splitting:
                return await asyncio.to_thread(work)
        except UnicodeEncodeError as error:
            raise index_error(error, self.server.shown) from None
