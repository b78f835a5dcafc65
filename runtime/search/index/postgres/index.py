"""An open index in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import asyncpg
import structlog
from pydantic import BaseModel

from dslc.blocks.values.secret import is_reference
from runtime.errors import UsageError
from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.errors import IndexFailed
from runtime.search.index.embedded.schema import about
from runtime.search.index.embedded.tokenizer import Tokenizer
from runtime.search.index.index import Index, IndexChange, IndexPlace, IndexStats, Matched, Neighbours, Pending, Scored
from runtime.search.index.postgres import hnsw, keyword_search, queries, sizes, tokens, writes
from runtime.search.index.postgres import vector_search as vectors
from runtime.search.index.postgres.connections import IndexConnections, T, Work
from runtime.search.index.postgres.options import PostgresOptions
from runtime.search.index.postgres.schema import CLEAR
from runtime.search.index.postgres.stemming import Stems, to_postgres
from runtime.secrets.secret import Secret

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ON_THE_LOOP = 50
"""Maximum number of texts whose words are counted without a thread."""
_FOLD_EVERY = 50
"""Number of writes after which their counts are added up; also done after the first write."""
_log = structlog.get_logger("symbiont.index")


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
        self._stems = Stems()
        self._tokenizer = Tokenizer()
        self._model: str | None = None
        self._dimension: int | None = None
        self._token_version: str | None = None
        self._sizes_are_new = False
        self._writes = 0
        self._building: asyncio.Task[None] | None = None
        self._problem: str | None = None
        self._closed = False

    @property
    def problem(self) -> str | None:
        return self._problem

    @property
    def building(self) -> bool:
        """True if an HNSW index is being considered or built."""
        return self._building is not None

    async def versions(self) -> str:
        """Return the versions of PostgreSQL and pgvector."""
        server = await self.server.look(lambda connection: connection.fetchval("SHOW server_version"))
        return f"PostgreSQL {server}, pgvector {'.'.join(map(str, self.server.made.vector))}"

    async def reachable(self) -> str | None:
        await self.server.look(lambda connection: connection.execute("SELECT"))
        return f"{self.server.shown}, schema {self.server.schema}"

    async def tend(self) -> None:
        if self._sizes_are_new:
            return
        self._sizes_are_new = await self.server.look(sizes.are_new)
        if not self._sizes_are_new:
            await self._write(sizes.renew)
            if self.on_work is not None:
                self.on_work()

    async def parts(self, agent: str | None = None) -> Mapping[str, str]:
        return await self.server.look(lambda connection: queries.parts(connection, agent))

    async def put(self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]) -> IndexChange:
        fresh = await self._fresh(part, entries)
        return await self._write(lambda connection: writes.put(connection, part, agent, revision, fresh))

    async def grow(self, part: str, agent: str, before: str | None, after: str, entries: Sequence[IndexEntry]) -> bool:
        fresh = await self._fresh(part, entries)
        old = None if before is None else to_postgres(before)
        return await self._write(lambda connection: writes.grow(connection, part, agent, old, after, fresh))

    async def drop(self, parts: Sequence[str]) -> int:
        return await self._write(lambda connection: writes.drop(connection, parts))

    async def clear(self) -> None:
        async def work(connection: Any) -> None:
            await connection.execute(CLEAR)
            await connection.execute(writes.FORGET_MODEL)

        await self._write(work)

    async def use_model(self, model: str | None, dimension: int | None, token_bits: str | None = None) -> None:
        self._model, self._dimension = model, dimension
        # Bits belong to the model, whatever the version is called.
        self._token_version = version = (
            None if model is None or token_bits is None else to_postgres(f"{token_bits} of {model}")
        )
        if model is None:
            return

        async def look(connection: Any) -> tuple[bool, bool]:
            found = await writes.model_of(connection)
            other = tokens.differs(await tokens.version_of(connection), version)
            return _differs(found, to_postgres(model), dimension), other

        async def work(connection: Any) -> None:
            other_model, _ = await look(connection)
            if other_model:
                await writes.forget_vectors(connection)
            if tokens.differs(await tokens.version_of(connection), version):
                await tokens.forget(connection)

        if any(await self.server.read(look)):
            await self._write(work)

    async def pending(self, limit: int) -> Sequence[Pending]:
        if self._model is None:
            return ()
        found = await self.server.look(lambda connection: queries.pending(connection, limit, self._token_version))
        if not found and limit > 0:
            self._build()
        return found

    async def embedded(
        self, vectors: Sequence[tuple[Pending, NDArray[np.float32]]], tokens: Sequence[bytes] | None = None
    ) -> int:
        model, version = self._model, self._token_version
        if model is None or not vectors:
            return 0
        return await self._write(
            lambda connection: writes.embed(connection, to_postgres(model), self._dimension, vectors, tokens, version)
        )

    async def keyword(self, words_: Sequence[str], wanted: EntryFilter, limit: int) -> Matched:
        return await self.server.read(
            lambda connection: keyword_search.keyword(connection, self._tokenizer, self._stems, words_, wanted, limit)
        )

    async def nearest(
        self, vector: NDArray[np.float32], wanted: EntryFilter, limit: int, also: NDArray[np.int64] | None = None
    ) -> Scored:
        model = None if self._model is None else to_postgres(self._model)
        return await self.server.read(
            lambda connection: vectors.nearest(
                connection, self._options, self.server.made, model, vector, wanted, limit, also
            )
        )

    async def tokens(self, keys: NDArray[np.int64]) -> Sequence[bytes | None]:
        version = self._token_version
        if version is None:
            return [None] * len(keys)
        return await self.server.look(lambda connection: tokens.read(connection, version, keys))

    async def neighbours(self, keys: NDArray[np.int64]) -> Neighbours:
        return await self.server.look(lambda connection: queries.neighbours(connection, keys))

    async def entries(self, keys: Sequence[int]) -> Mapping[int, IndexEntry]:
        return await self.server.look(lambda connection: queries.entries(connection, keys))

    async def newest(
        self, wanted: EntryFilter, limit: int, before: tuple[datetime, str] | None = None, begins: str = ""
    ) -> Sequence[IndexEntry]:
        return await self.server.read(lambda connection: queries.newest(connection, wanted, limit, before, begins))

    async def authors(self, wanted: EntryFilter) -> Sequence[str]:
        return await self.server.look(lambda connection: queries.authors(connection, wanted))

    async def stats(self, agent: str | None = None, user: str | None = None) -> IndexStats:
        version = self._token_version
        return await self.server.look(
            lambda connection: queries.stats(connection, self.server.schema, agent, user, version)
        )

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._building is not None:
            self._building.cancel()
            await asyncio.gather(self._building, return_exceptions=True)
        await self.server.close()
        self._tokenizer.close()
        self._stems.close()

    async def _write(self, work: Work[T]) -> T:
        self._writes += 1
        folds = self._writes % _FOLD_EVERY == 1

        async def both(connection: Any) -> T:
            result = await work(connection)
            if folds:
                await writes.fold(connection)
            return result

        return await self.server.write(both)

    async def _fresh(self, part: str, entries: Sequence[IndexEntry]) -> dict[str, writes.NewEntry]:
        texts = [(entry.text, about(entry.author, entry.time)) for entry in entries]

        def work() -> dict[str, writes.NewEntry]:
            return writes.fresh_of(entries, self._stems.counted(texts), part)

        self.server.check()
        try:
            return await asyncio.to_thread(work) if len(entries) > _ON_THE_LOOP else work()
        except UnicodeEncodeError as error:
            raise self.server.failed(error) from None

    def _build(self) -> None:
        """Build the HNSW index in the background if needed."""
        if self._building is None and not self._closed:
            self._building = asyncio.create_task(self._keep_graph(), name=f"HNSW of {self.server.schema}")

    async def _keep_graph(self) -> None:
        try:
            stats = await self.stats()
            if stats.dimension is None or stats.embedded < hnsw.FROM_VECTORS:
                return
            graph = hnsw.graph_of(self._options, stats.dimension, self.server.made)
            if not await self.server.look(lambda connection: hnsw.settled(connection, graph)):
                await self._make(graph, stats.embedded)
            self._problem = None
        except (IndexFailed, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            reason = error.line() if isinstance(error, IndexFailed) else self.server.failed(error).line()
            self._problem = f"no HNSW index could be built, so all vectors are compared: {reason}"
            _log.warning("hnsw_build_failed", reason=reason)
        finally:
            self._building = None

    async def _make(self, graph: hnsw.Graph | None, vectors: int) -> None:
        async with self.server.alone() as connection:
            made = await hnsw.build(connection, self.server.schema, graph)
        if made and graph is not None:
            _log.info("hnsw_built", index=self.server.shown, vectors=vectors, named=graph.name)


def _differs(found: tuple[str, int] | None, model: str, dimension: int | None) -> bool:
    """True if there are vectors of another model, or of another dimension if that is given."""
    return found is not None and (found[0] != model or dimension not in {None, found[1]})
