"""Queries of an index in PostgreSQL other than searches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.index.embedded.schema import EPOCH, microseconds
from runtime.search.index.index import WHOLE_ID, IndexStats, Neighbours, PendingEntry
from runtime.search.index.postgres.filters import Where
from runtime.search.index.postgres.text import from_postgres, to_postgres, to_postgres_or_none

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL: Final = "model"
DIMENSION: Final = "dimension"
TOKEN_BITS: Final = "token bits"  # noqa: S105 - no secret
"""Names in `meta`: the model and dimension of the vectors, and the version of the token bits."""

_WAITING = """
SELECT f.id, e.hash, e.text FROM entry_facts f JOIN entries e USING (key) WHERE {waits}
ORDER BY f.time DESC, key LIMIT $1"""
_NEIGHBOURS = "SELECT key, before, after, author, time, asks, words FROM entry_facts WHERE key = ANY($1::bigint[])"
_ENTRIES = """
SELECT e.key, f.id, f.agent, f."user", f.project, f.type, f.time, f.source, f.tags, e.text, e.hash, f.author,
    e."group", f."order", p.name AS part, e.line, e.rest, f.other_sources, f.subject, f.replaces, f.retracts
FROM entries e JOIN entry_facts f USING (key) JOIN parts p ON p.key = e.part WHERE e.key = ANY($1::bigint[])"""
_TOKENS = """
SELECT key, bits FROM tokens WHERE key = ANY($1::bigint[])
AND EXISTS (SELECT FROM meta WHERE name = 'token bits' AND value = $2)"""
_STATS = """
SELECT count(*), count(*) FILTER (WHERE embedded), count(*) FILTER (WHERE embedded AND tokenized),
    (SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
        WHERE relnamespace = to_regnamespace($1) AND relkind = 'r')
FROM entry_facts f WHERE {where}"""


async def meta(connection: Any) -> dict[str, str]:
    """Return the properties of the index as a whole."""
    return dict(await connection.fetch("SELECT name, value FROM meta"))


async def parts(connection: Any, agent: str | None, names: Collection[str] | None) -> dict[str, str]:
    """See `Index.parts`."""
    listed = None if names is None else list(map(to_postgres, names))
    sql = (
        "SELECT name, revision FROM parts WHERE agent = coalesce($1, agent) AND ($2::text[] IS NULL OR name = ANY($2))"
    )
    rows = await connection.fetch(sql, to_postgres_or_none(agent), listed)
    return {from_postgres(name): from_postgres(revision) for name, revision in rows}


async def pending(connection: Any, limit: int, version: str | None) -> list[PendingEntry]:
    """See `Index.pending`. `version`: of token bits that are wanted."""
    rows = await connection.fetch(_WAITING.format(waits="NOT embedded"), max(limit, 0))
    if version is not None and len(rows) < limit and (await meta(connection)).get(TOKEN_BITS) == version:
        sql = _WAITING.format(waits="embedded AND NOT tokenized")
        rows += await connection.fetch(sql, limit - len(rows))
    return [PendingEntry(*map(from_postgres, row)) for row in rows]


async def neighbours(connection: Any, keys: NDArray[np.int64]) -> Neighbours:
    """See `Index.neighbours`."""
    found = {row[0]: row for row in await connection.fetch(_NEIGHBOURS, keys.tolist())}
    rows = [found.get(key, (key, 0, 0, None, 0, False, 0)) for key in keys.tolist()]
    numbers = {author: at for at, author in enumerate(dict.fromkeys(row[3] for row in rows if row[3] is not None))}
    before, after, time, words = (np.array([row[at] for row in rows], np.int64) for at in (1, 2, 4, 6))
    author = np.array([-1 if row[3] is None else numbers[row[3]] for row in rows], np.int64)
    asks = np.array([row[5] for row in rows], np.bool_)
    return Neighbours(before, after, author, time, asks, words, list(map(from_postgres, numbers)))


async def tokens(connection: Any, version: str, keys: NDArray[np.int64]) -> Sequence[bytes | None]:
    """See `Index.tokens`. `version`: of token bits that are wanted."""
    found = dict(await connection.fetch(_TOKENS, keys.tolist(), version))
    return [found.get(key) for key in keys.tolist()]


async def entries(connection: Any, keys: Sequence[int]) -> Mapping[int, IndexEntry]:
    """See `Index.entries`."""
    found = {row["key"]: _entry(row) for row in await connection.fetch(_ENTRIES, list(keys))}
    return {key: found[key] for key in keys if key in found}


async def newest(
    connection: Any, wanted: EntryFilter, limit: int, before: tuple[datetime, str] | None, begins: str
) -> list[IndexEntry]:
    """See `Index.newest`."""
    where = Where(limit).add_filter(wanted)
    if begins:
        where.add("f.id = ?::text" if len(begins) == WHOLE_ID else "starts_with(f.id, ?::text)", to_postgres(begins))
    if before is not None:
        where.values.append(microseconds(before[0]))
        time = f"${len(where.values)}::bigint"
        where.add(f'(f.time, f.id COLLATE "C") < ({time}, ?::text COLLATE "C")', to_postgres(before[1]))
    sql = f'SELECT key FROM entry_facts f WHERE {where.sql} ORDER BY time DESC, id COLLATE "C" DESC LIMIT $1'  # noqa: S608
    keys = [row[0] for row in await connection.fetch(sql, *where.values)]
    return list((await entries(connection, keys)).values())


def _entry(row: Any) -> IndexEntry:
    fields: dict[str, Any] = dict(row)
    del fields["key"]
    for name, value in fields.items():
        if isinstance(value, str):
            fields[name] = from_postgres(value)
    fields["time"] = EPOCH + timedelta(microseconds=fields["time"])
    for name in ("tags", "other_sources"):
        fields[name] = tuple(map(from_postgres, fields[name]))
    return IndexEntry(**fields)


async def authors(connection: Any, wanted: EntryFilter) -> list[str]:
    """See `Index.authors`."""
    where = Where().add_filter(wanted)
    sql = f"SELECT DISTINCT author FROM entry_facts f WHERE author IS NOT NULL AND {where.sql}"  # noqa: S608
    return sorted(from_postgres(author) for (author,) in await connection.fetch(sql, *where.values))


async def stats(connection: Any, schema: str, wanted: EntryFilter, version: str | None) -> IndexStats:
    """See `Index.stats`. `version`: of token bits, the one in use."""
    where = Where(schema).add_filter(wanted)
    entries_, embedded, tokenized, size = await connection.fetchrow(_STATS.format(where=where.sql), *where.values)
    known = await meta(connection)
    if not embedded or MODEL not in known:
        return IndexStats(entries_, embedded, None, None, size)
    tokenized *= version is not None and known.get(TOKEN_BITS) == version
    return IndexStats(entries_, embedded, from_postgres(known[MODEL]), int(known[DIMENSION]), size, tokenized)
