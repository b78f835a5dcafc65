"""Finds the entries nearest to a vector: by pgvector's HNSW index if many are wanted, else by comparing all.

Vectors have length 1, so their inner product is their cosine; it is used because a vector of zeros has no cosine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from runtime.search.entry import EntryFilter
from runtime.search.index.embedded.matrix import unit
from runtime.search.index.index import ScoredEntries
from runtime.search.index.postgres.filters import Where
from runtime.search.index.postgres.options import PostgresOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FEW: Final = 5_000
"""Maximum number of filtered entries that are all compared, in a few milliseconds."""
MOST: Final = 1_000
"""Maximum number of candidates that HNSW returns, unless it can continue."""
ITERATIVE: Final = (0, 8)
"""The version of pgvector since which HNSW continues until enough entries pass a filter (`hnsw.iterative_scan`)."""
LONGEST_VECTOR: Final = 2_000
LONGEST_HALFVEC: Final = 4_000
"""Maximum dimension of vectors that HNSW indexes as 16-bit numbers, since pgvector 0.7
(github.com/pgvector/pgvector#hnsw)."""

_PLAN: Final = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_sort": "off"}
"""Makes the planner use the HNSW index, whatever its estimated cost."""

_JOINED = "FROM vectors v JOIN entry_facts f USING (key) WHERE"
_COUNT = "SELECT count(*) FROM (SELECT FROM entry_facts f WHERE embedded AND {where} LIMIT {limit}) found"
# With an addition, the distance does not match the index, so all entries are compared.
_EXACT = f"""SELECT v.key, v.vector <#> $1::real[]::vector {_JOINED} {{where}}
ORDER BY (v.vector <#> $1::real[]::vector) + 0, v.key LIMIT $2"""
_NEAR = """
WITH near AS MATERIALIZED (
    SELECT v.key, v.vector <#> $1::real[]::vector AS distance FROM vectors v
    WHERE EXISTS (SELECT FROM entry_facts f WHERE f.key = v.key AND {where})
    ORDER BY v.vector::{type} <#> $1::real[]::{type} LIMIT $2
)
SELECT key, distance FROM near ORDER BY distance, key"""
_ALSO = f"SELECT v.key, v.vector <#> $1::real[]::vector {_JOINED} v.key = ANY($2::bigint[]) AND {{where}}"


def indexed_type(dimension: int, version: tuple[int, ...]) -> str | None:
    """Return the type as which HNSW indexes vectors of this dimension; None: this pgvector cannot."""
    if dimension <= LONGEST_VECTOR:
        return f"vector({dimension})"
    return f"halfvec({dimension})" if dimension <= LONGEST_HALFVEC and version >= (0, 7) else None


def hnsw_of(type_: str) -> str:
    """Return the statement that creates the HNSW index over vectors as this type."""
    operators = f"{type_.partition('(')[0]}_ip_ops"
    return f"CREATE INDEX IF NOT EXISTS vectors_nearest ON vectors USING hnsw ((vector::{type_}) {operators})"


async def nearest(
    connection: Any,
    options: PostgresOptions,
    version: tuple[int, ...],
    dimension: int | None,
    vector: NDArray[np.float32],
    wanted: EntryFilter,
    limit: int,
    also: NDArray[np.int64] | None,
) -> ScoredEntries:
    """See `Index.nearest`. `dimension`: of the stored vectors (None: there are none); `version`: of pgvector."""
    query = unit(np.asarray(vector, np.float32)[None], dimension)[0].tolist()
    if dimension is None:
        return ScoredEntries(np.zeros(0, np.int64), np.zeros(0, np.float32))
    where = Where(query, max(limit, 0)).add_filter(wanted)
    rows: Sequence[Any] = []
    type_ = indexed_type(dimension, version)
    if type_ is not None and not options.exact and limit > 0 and await _is_large(connection, wanted):
        rows = await _by_index(connection, options, version, type_, where, limit, wanted != EntryFilter())
    if len(rows) < limit:
        rows = await connection.fetch(_EXACT.format(where=where.sql), *where.values)
    found = _scored_entries(rows)
    if also is None or not len(also):
        return found
    where = Where(query, np.setdiff1d(also, found.keys).tolist()).add_filter(wanted)
    others = _scored_entries(await connection.fetch(_ALSO.format(where=where.sql), *where.values))
    order = np.lexsort((others.keys, -others.scores))
    return ScoredEntries(
        np.concatenate((found.keys, others.keys[order])), np.concatenate((found.scores, others.scores[order]))
    )


async def _is_large(connection: Any, wanted: EntryFilter) -> bool:
    where = Where().add_filter(wanted)
    return bool(await connection.fetchval(_COUNT.format(where=where.sql, limit=FEW + 1), *where.values) > FEW)


async def _by_index(
    connection: Any,
    options: PostgresOptions,
    version: tuple[int, ...],
    type_: str,
    where: Where,
    limit: int,
    filtered: bool,
) -> Sequence[Any]:
    """Return the rows of the HNSW index; fewer than `limit` if its candidates did not suffice."""
    iterative = version >= ITERATIVE
    candidates = MOST if filtered and not iterative else min(MOST, max(options.ef_search, limit))
    settings = {"hnsw.ef_search": str(candidates), **_PLAN}
    if iterative:
        settings["hnsw.iterative_scan"] = "strict_order"
    await connection.execute("; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items()))
    rows: Sequence[Any] = await connection.fetch(_NEAR.format(type=type_, where=where.sql), *where.values)
    await connection.execute("; ".join(f"RESET {name}" for name in settings))
    return rows


def _scored_entries(rows: Sequence[Any]) -> ScoredEntries:
    keys = np.array([row[0] for row in rows], np.int64)
    return ScoredEntries(keys, -np.array([row[1] for row in rows], np.float32))
