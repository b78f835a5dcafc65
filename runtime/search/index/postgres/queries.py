"""Queries of an index in PostgreSQL other than searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.index.embedded.schema import EPOCH, microseconds
from runtime.search.index.index import WHOLE_ID, IndexStats, Neighbours, Pending
from runtime.search.index.postgres.filters import Where
from runtime.search.index.postgres.stemming import from_postgres, to_postgres

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PENDING = """
WITH found AS (
    (SELECT key, time, 0 AS since FROM waiting ORDER BY time DESC, key LIMIT $1)
    UNION ALL (
        SELECT key, time, 1 FROM waiting_tokens WHERE EXISTS (
            SELECT FROM meta WHERE name = 'tokens' AND value IN ('', $2)
        ) ORDER BY time DESC, key LIMIT $1
    )
)
SELECT id, hash, text FROM found JOIN entries USING (key) ORDER BY since, time DESC, key LIMIT $1"""
_NEIGHBOURS = "SELECT key, before, after, author, time, asks, text_size FROM places WHERE key = ANY($1::bigint[])"
_ENTRIES = """
SELECT e.key, e.id, p.agent, p."user", p.project, p.type, p.time, p.source, e.tags, e.text, e.hash, p.author, e."group",
    p."order", parts.name, e.line, e.rest, e.other_sources, p.subject, c.replaces, c.retracts
FROM entries e JOIN places p USING (key) LEFT JOIN changes c USING (key) JOIN parts ON parts.key = e.part
WHERE e.key = ANY($1::bigint[])"""
_NEWEST = """
WITH found AS (
    (SELECT key, time FROM places p WHERE {where} AND {older}
        ORDER BY time DESC FETCH FIRST ({limit}::bigint) ROWS WITH TIES)
    UNION ALL SELECT key, time FROM places p WHERE {where} AND {tied}
)
SELECT key FROM found JOIN entries e USING (key) ORDER BY time DESC, e.id COLLATE "C" DESC LIMIT {limit}::bigint"""
"""Ids are stored with the texts: they are read only for entries that may be among the newest."""
_STATS = """
SELECT (SELECT coalesce(sum(entries), 0)::bigint FROM totals p WHERE {scope}), (SELECT count(*) FROM waiting{waiting}),
    (SELECT value FROM meta WHERE name = 'model'), (SELECT value FROM meta WHERE name = 'dimension'),
    EXISTS (SELECT FROM meta WHERE name = 'tokens' AND value = $2), (SELECT count(*) FROM waiting_tokens{waiting}),
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
        WHERE relnamespace = to_regnamespace($1) AND relkind = 'r')"""


async def parts(connection: Any, agent: str | None) -> dict[str, str]:
    """See `Index.parts`."""
    where = Where().scope(agent, None)
    rows = await connection.fetch(f"SELECT name, revision FROM parts p WHERE {where.sql}", *where.values)  # noqa: S608
    return {from_postgres(name): from_postgres(revision) for name, revision in rows}


async def pending(connection: Any, limit: int, version: str | None) -> list[Pending]:
    """See `Index.pending`. `version`: of token bits that are wanted."""
    rows = await connection.fetch(_PENDING, max(limit, 0), version)
    return [Pending(*map(from_postgres, row)) for row in rows]


async def neighbours(connection: Any, keys: NDArray[np.int64]) -> Neighbours:
    """See `Index.neighbours`."""
    found = {row[0]: row for row in await connection.fetch(_NEIGHBOURS, keys.tolist())}
    rows = [found.get(key, (key, 0, 0, None, 0, False, 0)) for key in keys.tolist()]
    numbers = {author: at for at, author in enumerate(dict.fromkeys(row[3] for row in rows if row[3] is not None))}
    before, after, time, words = (np.array([row[at] for row in rows], np.int64) for at in (1, 2, 4, 6))
    author = np.array([-1 if row[3] is None else numbers[row[3]] for row in rows], np.int64)
    asks = np.array([row[5] for row in rows], np.bool_)
    return Neighbours(before, after, author, time, asks, words, list(map(from_postgres, numbers)))


async def entries(connection: Any, keys: Sequence[int]) -> Mapping[int, IndexEntry]:
    """See `Index.entries`."""
    found = {row[0]: _entry(row) for row in await connection.fetch(_ENTRIES, list(keys))}
    return {key: found[key] for key in keys if key in found}


async def newest(
    connection: Any, wanted: EntryFilter, limit: int, before: tuple[datetime, str] | None, begins: str
) -> list[IndexEntry]:
    """See `Index.newest`."""
    where = Where(limit).wanted(wanted)
    if begins:
        alike = "id = ?::text" if len(begins) == WHOLE_ID else "starts_with(id, ?::text)"
        where.add(f"p.key IN (SELECT key FROM entries WHERE {alike})", to_postgres(begins))  # noqa: S608
    older, tied = "true", "false"
    if before is not None:
        time, name = f"${len(where.values) + 1}::bigint", f"${len(where.values) + 2}::text"
        where.values += [microseconds(before[0]), to_postgres(before[1])]
        older = f"p.time < {time}"
        tied = f'p.time = {time} AND (SELECT id FROM entries WHERE key = p.key) COLLATE "C" < {name}'  # noqa: S608
    sql = _NEWEST.format(where=where.sql, older=older, tied=tied, limit="$1")
    keys = [row[0] for row in await connection.fetch(sql, *where.values)]
    return list((await entries(connection, keys)).values())


def _entry(row: Any) -> IndexEntry:
    (
        _,
        identity,
        agent,
        user,
        project,
        kind,
        time,
        source,
        tags,
        text,
        hashed,
        author,
        group,
        order,
        part,
        line,
        rest,
        other_sources,
        subject,
        replaces,
        retracts,
    ) = row
    return IndexEntry(
        id=from_postgres(identity),
        agent=from_postgres(agent),
        user=from_postgres(user),
        project=_maybe(project),
        type=from_postgres(kind),
        time=EPOCH + timedelta(microseconds=time),
        source=_maybe(source),
        tags=tuple(map(from_postgres, tags)),
        text=from_postgres(text),
        hash=from_postgres(hashed),
        author=_maybe(author),
        group=from_postgres(group),
        order=order,
        part=from_postgres(part),
        line=line,
        rest=from_postgres(rest),
        other_sources=tuple(map(from_postgres, other_sources)),
        subject=_maybe(subject),
        replaces=_maybe(replaces),
        retracts=_maybe(retracts),
    )


async def authors(connection: Any, wanted: EntryFilter) -> list[str]:
    """See `Index.authors`. The authors of an agent or a user are found without reading entries."""
    if wanted == EntryFilter(agent=wanted.agent, user=wanted.user):
        table, having = "totals", "HAVING sum(entries) > 0"
    else:
        table, having = "places", ""
    where = Where().wanted(wanted)
    sql = f"SELECT author FROM {table} p WHERE author IS NOT NULL AND {where.sql} GROUP BY author {having}"  # noqa: S608
    return sorted(from_postgres(row[0]) for row in await connection.fetch(sql, *where.values))


async def stats(connection: Any, schema: str, agent: str | None, user: str | None, version: str | None) -> IndexStats:
    """See `Index.stats`. `version`: of token bits, the one in use."""
    where = Where(schema, version).scope(agent, user)
    waiting = f" JOIN places p USING (key) WHERE {where.sql}" if where.values[2:] else ""
    row = await connection.fetchrow(_STATS.format(scope=where.sql, waiting=waiting), *where.values)
    total, waits, model, dimension, has_tokens, without_tokens, size = row
    embedded = total - waits
    if not embedded or model is None or dimension is None:
        return IndexStats(total, embedded, None, None, size)
    tokenized = embedded - without_tokens if has_tokens else 0
    return IndexStats(total, embedded, from_postgres(model), int(dimension), size, tokenized)


def _maybe(text: str | None) -> str | None:
    return None if text is None else from_postgres(text)
