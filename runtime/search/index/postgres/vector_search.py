"""Finds the entries nearest to a vector: by HNSW if that finds enough, else by comparing all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from runtime.search.entry import EntryFilter
from runtime.search.index.embedded.matrix import unit
from runtime.search.index.index import Scored
from runtime.search.index.postgres.filters import Where
from runtime.search.index.postgres.hnsw import Graph, graph_of, usable
from runtime.search.index.postgres.options import PostgresOptions
from runtime.search.index.postgres.schema import CreatedTables
from runtime.search.index.postgres.writes import model_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FEW: Final = 5_000
"""Maximum number of filtered entries that are all compared, in a few milliseconds."""
MOST: Final = 1_000
"""Maximum number of candidates that HNSW returns, unless it can continue (`hnsw.ef_search`)."""
ITERATIVE: Final = (0, 8)
"""The version of pgvector since which HNSW continues until enough entries pass a filter."""

_PLAN: Final = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
"""Makes the planner use the graph, whatever its estimated cost."""

_JOINED = "FROM vectors v JOIN places p USING (key) WHERE "
# With an addition, the distance does not match the index, so all entries are compared.
_EXACT = f"SELECT v.key, v.vector <#> $1::real[]::vector {_JOINED}{{where}} ORDER BY (v.vector <#> $1::real[]::vector) + 0, v.key LIMIT $2"  # noqa: E501
_FEW = f"SELECT count(*) FROM (SELECT FROM places p WHERE {{where}} LIMIT {FEW + 1}) found"  # noqa: S608
_SHARE = "SELECT count(*), (SELECT greatest(sum(entries), 1)::float8 FROM totals) FROM places p WHERE {where}"
_NEAR = """
WITH near AS MATERIALIZED (
    SELECT v.key, v.vector <#> $1::real[]::vector AS distance FROM vectors v
    ORDER BY v.{column} <#> $1::real[]::{type} LIMIT {candidates}
)
SELECT v.key, v.distance FROM near v JOIN places p USING (key) WHERE {where} ORDER BY v.distance, v.key LIMIT $2"""
_ON = """
WITH near AS MATERIALIZED (
    SELECT v.key, v.vector <#> $1::real[]::vector AS distance FROM vectors v
    WHERE EXISTS (SELECT FROM places p WHERE p.key = v.key AND {where})
    ORDER BY v.{column} <#> $1::real[]::{type} LIMIT $2
)
SELECT key, distance FROM near ORDER BY distance, key"""
_BESIDES = f"SELECT v.key, v.vector <#> $1::real[]::vector {_JOINED}v.key = ANY($2::bigint[]) AND {{where}}"


async def nearest(
    connection: Any,
    options: PostgresOptions,
    made: CreatedTables,
    model: str | None,
    vector: NDArray[np.float32],
    wanted: EntryFilter,
    limit: int,
    also: NDArray[np.int64] | None,
) -> Scored:
    """See `Index.nearest`. Vectors of another model than `model`, if given, are left out."""
    kept = await model_of(connection)
    query = unit(np.asarray(vector, np.float32)[None], None if kept is None else kept[1])[0].tolist()
    if kept is None or model not in {None, kept[0]}:
        return Scored(np.zeros(0, np.int64), np.zeros(0, np.float32))
    rows: Sequence[Any] = []
    if limit > 0:
        rows = await _nearest(connection, graph_of(options, kept[1], made), options, made, query, wanted, limit)
    found = _scored(rows)
    if also is None or not len(also):
        return found
    rest = np.setdiff1d(also, found.keys)
    where = Where(query, rest.tolist()).wanted(wanted)
    others = _scored(await connection.fetch(_BESIDES.format(where=where.sql), *where.values))
    order = np.lexsort((others.keys, -others.scores))
    return Scored(
        np.concatenate((found.keys, others.keys[order])), np.concatenate((found.scores, others.scores[order]))
    )


async def _nearest(
    connection: Any,
    graph: Graph | None,
    options: PostgresOptions,
    made: CreatedTables,
    query: list[float],
    wanted: EntryFilter,
    limit: int,
) -> Sequence[Any]:
    where = Where(query, limit).wanted(wanted)
    if graph is not None and await usable(connection, graph):
        filtered = wanted != EntryFilter()
        if not filtered or await _worth_it(connection, made, wanted, limit):
            rows = await _by_graph(connection, graph, options, made, where, limit, filtered)
            if len(rows) == limit:
                return rows
    exact: Sequence[Any] = await connection.fetch(_EXACT.format(where=where.sql), *where.values)
    return exact


async def _worth_it(connection: Any, made: CreatedTables, wanted: EntryFilter, limit: int) -> bool:
    """True if comparing all entries that pass the filter is slow, and enough of the graph's candidates are likely to
    pass."""
    where = Where().wanted(wanted)
    if made.vector >= ITERATIVE:
        return bool(await connection.fetchval(_FEW.format(where=where.sql), *where.values) > FEW)
    passing, every = await connection.fetchrow(_SHARE.format(where=where.sql), *where.values)
    return bool(passing > FEW and MOST * passing / every >= limit)


async def _by_graph(
    connection: Any,
    graph: Graph,
    options: PostgresOptions,
    made: CreatedTables,
    where: Where,
    limit: int,
    filtered: bool,
) -> Sequence[Any]:
    """Return what HNSW finds; fewer than `limit` if its candidates did not suffice."""
    goes_on = made.vector >= ITERATIVE
    if limit > MOST and not goes_on:
        return ()
    iterative = goes_on and (filtered or limit > MOST)
    candidates = MOST if filtered and not goes_on else min(MOST, max(options.ef_search, limit))
    settings = {"hnsw.ef_search": str(candidates), **_PLAN}
    if iterative:
        settings |= {"hnsw.iterative_scan": "strict_order", "enable_sort": "off"}
    await connection.execute("; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items()))
    kind = f"vector::{graph.type}({graph.dimension})"
    sql = (_ON if iterative else _NEAR).format(column=kind, type=kind, where=where.sql, candidates=candidates)
    rows: Sequence[Any] = await connection.fetch(sql, *where.values)
    await connection.execute("; ".join(f"RESET {name}" for name in settings))
    return rows


def _scored(rows: Sequence[Any]) -> Scored:
    keys = np.array([row[0] for row in rows], np.int64)
    return Scored(keys, -np.array([row[1] for row in rows], np.float32))
