"""The HNSW index over the vectors: when it is built, with which parameters, and how a search uses it.

Vectors have length 1, so their inner product is their cosine; it is used because a vector of zeros has no cosine.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final, NamedTuple

import asyncpg

from runtime.search.index.postgres.options import PostgresOptions
from runtime.search.index.postgres.schema import CreatedTables, quoted
from runtime.search.index.postgres.stemming import code

FROM_VECTORS: Final = 10_000
"""The number of vectors at which the index is built: comparing fewer takes a few milliseconds."""
LONGEST_VECTOR: Final = 2_000
LONGEST_HALFVEC: Final = 4_000
"""Maximum dimension of vectors that HNSW indexes as 16-bit numbers, since pgvector 0.7
(github.com/pgvector/pgvector#hnsw)."""


class Graph(NamedTuple):
    """An HNSW index over vectors of `dimension` numbers, stored as `type`; `name` contains its parameters."""

    dimension: int
    type: str
    m: int
    ef_construction: int

    @property
    def name(self) -> str:
        """Return the index's name."""
        return f"hnsw_{self.type}_{self.dimension}_{self.m}_{self.ef_construction}"

    @property
    def column(self) -> str:
        """Return the indexed expression."""
        return f"(vector::{self.type}({self.dimension}))"

    @property
    def statement(self) -> str:
        """Return the statement that builds it without blocking writers."""
        return (
            f"CREATE INDEX CONCURRENTLY {self.name} ON vectors USING hnsw ({self.column} {self.type}_ip_ops)"
            f" WITH (m = {self.m}, ef_construction = {self.ef_construction})"
        )


def graph_of(options: PostgresOptions, dimension: int, made: CreatedTables) -> Graph | None:
    """Return the index for vectors of this dimension; None: they are searched exactly."""
    if options.exact or dimension > LONGEST_HALFVEC:
        return None
    if dimension > LONGEST_VECTOR and made.vector < (0, 7):
        return None
    kind = "halfvec" if dimension > LONGEST_VECTOR else "vector"
    return Graph(dimension, kind, options.m, max(options.ef_construction, 2 * options.m))


async def usable(connection: Any, graph: Graph) -> bool:
    """True if the index exists and is valid."""
    sql = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"
    return bool(await connection.fetchval(sql, graph.name))


async def settled(connection: Any, graph: Graph | None) -> bool:
    """True if there is nothing to build or to drop."""
    return await _graphs(connection) == ({} if graph is None else {graph.name: True})


async def _graphs(connection: Any) -> dict[str, bool]:
    """Return the existing HNSW indexes by name, and which are valid."""
    return dict(
        await connection.fetch(
            "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " WHERE i.indrelid = to_regclass('vectors') AND c.relname LIKE 'hnsw%'"
        )
    )


async def build(connection: Any, schema: str, graph: Graph | None) -> bool:
    """Build the index on a connection outside of transactions, and drop those with other parameters; True if it was
    built.

    Does nothing if another daemon is building it. Raises asyncpg's errors.
    """
    lock = code(f"symbiont index hnsw {schema}")
    if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", lock):
        return False
    try:
        there = await _graphs(connection)
        for name, valid in there.items():
            if graph is None or name != graph.name or not valid:
                await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {quoted(schema)}.{quoted(name)}")
        if graph is None or there.get(graph.name):
            return False
        await connection.execute(graph.statement)
        await connection.execute("ANALYZE entries, places, words, vectors, totals, waiting")
        return True
    finally:
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await connection.fetchval("SELECT pg_advisory_unlock($1)", lock)
