"""Changes of an index in PostgreSQL: each function runs in an exclusive transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from runtime.search.entry import IndexEntry
from runtime.search.index.embedded.columns import asks
from runtime.search.index.embedded.matrix import unit
from runtime.search.index.embedded.schema import microseconds, said_by
from runtime.search.index.index import IndexChange, Pending
from runtime.search.index.postgres import tokens
from runtime.search.index.postgres.sizes import with_context
from runtime.search.index.postgres.stemming import Counted, array, code, to_postgres

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AT_ONCE = 1000
"""Maximum number of rows in one statement."""

_ENTRIES = """
INSERT INTO entries (key, id, hash, says, stands, part, circle, text, "group", line, rest, other_sources, tags)
SELECT key, id, hash, says, stands, $1::bigint, circle, text, "group", line, rest, other_sources::text[], tags::text[]
FROM unnest(
    $2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bigint[], $8::text[], $9::text[],
    $10::bigint[], $11::text[], $12::text[], $13::text[]
) AS fresh (key, id, hash, says, stands, circle, text, "group", line, rest, other_sources, tags)
ON CONFLICT (key) DO UPDATE SET (
    id, hash, says, stands, part, circle, text, "group", line, rest, other_sources, tags
) = (
    excluded.id, excluded.hash, excluded.says, excluded.stands, excluded.part, excluded.circle, excluded.text,
    excluded."group", excluded.line, excluded.rest, excluded.other_sources, excluded.tags
)"""
_PLACES = """
INSERT INTO places (
    key, agent, "user", project, type, source, author, time, "order", asks, circle, text_size, about_size, tags,
    other_sources, subject, size
)
SELECT key, agent, "user", project, type, source, author, time, "order", asks, circle, text_size, about_size,
    tags::bigint[], other_sources::bigint[], subject, text_size + about_size
FROM unnest(
    $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[],
    $10::boolean[], $11::bigint[], $12::integer[], $13::integer[], $14::text[], $15::text[],
    $16::text[]
) AS fresh (
    key, agent, "user", project, type, source, author, time, "order", asks, circle, text_size, about_size, tags,
    other_sources, subject
)
ON CONFLICT (key) DO UPDATE SET (
    agent, "user", project, type, source, author, time, "order", asks, circle, text_size, about_size, tags,
    other_sources, subject, size, before, after
) = (
    excluded.agent, excluded."user", excluded.project, excluded.type, excluded.source, excluded.author, excluded.time,
    excluded."order", excluded.asks, excluded.circle, excluded.text_size, excluded.about_size, excluded.tags,
    excluded.other_sources, excluded.subject, excluded.size, 0, 0
)"""
_WORDS = """
INSERT INTO words (key, words, often)
SELECT key, array_to_tsvector(stems::text[]), often::jsonb
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS fresh (key, stems, often)
ON CONFLICT (key) DO UPDATE SET (words, often) = (excluded.words, excluded.often)"""
_CHANGES = """
INSERT INTO changes (key, replaces, retracts)
SELECT key, replaces, retracts FROM unnest($1::bigint[], $2::text[], $3::text[]) AS fresh (key, replaces, retracts)
ON CONFLICT (key) DO UPDATE SET (replaces, retracts) = (excluded.replaces, excluded.retracts)"""
_NAMED = """
SELECT DISTINCT unnest(ARRAY[c.replaces, c.retracts]) FROM changes c JOIN entries e USING (key)
WHERE e.id = ANY($1::text[])"""
_HIDE = """
WITH affected AS MATERIALIZED (
    SELECT p.key, e.id, p.agent, p."user", p.subject FROM places p JOIN entries e USING (key)
    WHERE e.id = ANY($1::text[])
), verdicts AS (
    SELECT a.key, EXISTS (SELECT FROM changes c WHERE c.key = a.key AND c.retracts IS NOT NULL)
    OR EXISTS (
        SELECT FROM changes c JOIN places n USING (key) WHERE c.retracts = a.id
        AND (n.agent, n."user") = (a.agent, a."user") AND n.subject IS NOT DISTINCT FROM a.subject
    ) OR EXISTS (
        SELECT FROM changes c JOIN places n USING (key) JOIN entries e USING (key) WHERE c.replaces = a.id
        AND (n.agent, n."user") = (a.agent, a."user") AND n.subject IS NOT DISTINCT FROM a.subject
        AND NOT EXISTS (
            SELECT FROM changes r JOIN places w USING (key) WHERE r.retracts = e.id
            AND (w.agent, w."user") = (a.agent, a."user") AND w.subject IS NOT DISTINCT FROM a.subject
        )
    ) AS hidden FROM affected a
)
UPDATE places p SET hidden = v.hidden FROM verdicts v WHERE p.key = v.key AND p.hidden <> v.hidden"""
_WAITING = """
INSERT INTO waiting (key, time) SELECT key, time FROM unnest($1::bigint[], $2::bigint[]) AS fresh (key, time)
ON CONFLICT (key) DO UPDATE SET time = excluded.time"""
_WAITS_SINCE = """
WITH fresh AS (SELECT key, time FROM unnest($1::bigint[], $2::bigint[]) AS fresh (key, time)), done AS (
    UPDATE waiting w SET time = fresh.time FROM fresh WHERE w.key = fresh.key AND w.time <> fresh.time
)
UPDATE waiting_tokens w SET time = fresh.time FROM fresh WHERE w.key = fresh.key AND w.time <> fresh.time"""
_SIZE = with_context(
    "text_size", "about_size", "(lag(text_size, 1, 0) OVER circle)", "(lead(text_size, 1, 0) OVER circle)"
)
_LINK = f"""
WITH line AS MATERIALIZED (
    SELECT key, lag(key, 1, 0::bigint) OVER circle AS before, lead(key, 1, 0::bigint) OVER circle AS after,
        {_SIZE} AS size
    FROM places JOIN entries USING (key) WHERE places.circle = ANY($1::bigint[])
    WINDOW circle AS (PARTITION BY places.circle ORDER BY time, "order", id COLLATE "C")
)
UPDATE places p SET before = line.before, after = line.after, size = line.size FROM line
WHERE p.key = line.key AND (p.before, p.after, p.size) IS DISTINCT FROM (line.before, line.after, line.size)
"""  # noqa: S608 - expressions of ours
_REMOVE = """
WITH no_entries AS (DELETE FROM entries WHERE key = ANY($1::bigint[])),
    no_words AS (DELETE FROM words WHERE key = ANY($1::bigint[])),
    no_vectors AS (DELETE FROM vectors WHERE key = ANY($1::bigint[])),
    no_waiting AS (DELETE FROM waiting WHERE key = ANY($1::bigint[])),
    no_changes AS (DELETE FROM changes WHERE key = ANY($1::bigint[]))
DELETE FROM places WHERE key = ANY($1::bigint[])"""
_EXISTING = "SELECT key, id, hash, says, stands, circle FROM entries WHERE "
_EMBEDDED = """
SELECT e.key, id, hash, v.key IS NOT NULL FROM entries e LEFT JOIN vectors v USING (key) WHERE id = ANY($1::text[])"""
FORGET_MODEL = "DELETE FROM meta WHERE name IN ('model', 'dimension', 'tokens')"
_FOLD = """
WITH gone AS (DELETE FROM totals RETURNING *)
INSERT INTO totals SELECT agent, "user", author, sum(entries), sum(size) FROM gone GROUP BY agent, "user", author
HAVING sum(entries) <> 0"""


GRAPHS = (
    "SELECT i.indexrelid::regclass::text FROM pg_index i WHERE i.indrelid = to_regclass('vectors') AND NOT indisprimary"
)
"""Selects the names of the existing HNSW indexes."""


class NewEntry(NamedTuple):
    """An entry to write, with digests of its content and of its position."""

    entry: IndexEntry
    content: bytes
    position: bytes
    group: int | None
    counted: Counted


class ExistingEntry(NamedTuple):
    """An existing entry."""

    key: int
    id: str
    hash: str
    content: bytes
    position: bytes
    group: int | None


def fresh_of(entries: Iterable[IndexEntry], counted: Iterable[Counted], part: str) -> dict[str, NewEntry]:
    """Return the entries by stored id; of two with one id the later counts."""
    return {to_postgres(entry.id): _fresh(entry, stems, part) for entry, stems in zip(entries, counted, strict=True)}


def _fresh(entry: IndexEntry, counted: Counted, part: str) -> NewEntry:
    group = code(f"{entry.agent}\0{entry.group}") if entry.group else None
    content = _digest((entry.id, entry.hash, entry.text, said_by(entry)))
    return NewEntry(entry, content, _digest((part, entry.line, entry.order, entry.rest)), group, counted)


def _digest(what: object) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(what), digest_size=16).digest()


async def put(connection: Any, part: str, agent: str, revision: str, fresh: dict[str, NewEntry]) -> IndexChange:
    """Replace the entries of the part."""
    key = await _part(connection, part, agent, revision)
    there = await _existing(connection, "part = $1::bigint", key)
    gone = [one for one in there.values() if one.id not in fresh]
    touched = await _touched(connection, [one.id for one in gone])
    await _remove(connection, [one.key for one in gone])
    groups = {one.group for one in gone}
    changed, same = await _merge(connection, key, fresh, there, groups)
    await _hide(connection, touched)
    return IndexChange(changed, same, len(gone))


async def grow(
    connection: Any, part: str, agent: str, before: str | None, after: str, fresh: dict[str, NewEntry]
) -> bool:
    """Add entries to the part; False, and nothing done, if its revision is not `before`."""
    found = await connection.fetchval("SELECT revision FROM parts WHERE name = $1", to_postgres(part))
    if before != found:
        return False
    key = await _part(connection, part, agent, after)
    await _merge(connection, key, fresh, {}, set())
    return True


async def drop(connection: Any, parts: Sequence[str]) -> int:
    """Delete these parts."""
    names = [to_postgres(part) for part in parts]
    rows = await connection.fetch("DELETE FROM parts WHERE name = ANY($1::text[]) RETURNING key", names)
    gone = await _existing(connection, "part = ANY($1::bigint[])", [key for (key,) in rows])
    touched = await _touched(connection, list(gone))
    await _remove(connection, [one.key for one in gone.values()])
    await _hide(connection, touched)
    await _link_neighbours(connection, {one.group for one in gone.values()})
    return len(gone)


async def fold(connection: Any) -> None:
    """Add up single counts."""
    await connection.execute(_FOLD)


async def forget_vectors(connection: Any) -> None:
    """Delete all vectors and token bits, and their model; every entry becomes pending."""
    await connection.execute("TRUNCATE vectors, tokens, waiting_tokens")
    await connection.execute(FORGET_MODEL)
    await connection.execute(
        "INSERT INTO waiting (key, time) SELECT key, time FROM places ON CONFLICT (key) DO NOTHING"
    )


async def embed(
    connection: Any,
    model: str,
    dimension: int | None,
    vectors: Sequence[tuple[Pending, NDArray[np.float32]]],
    bits: Sequence[bytes] | None,
    version: str | None,
) -> int:
    """Store vectors of `dimension`, or of that of existing ones, and token bits of `version`; return how many were
    stored. An existing vector stays. Raises EmbeddingMismatch."""
    meta = await model_of(connection)
    if meta is not None and meta[0] != model:
        return 0  # Another daemon with another model was first.
    found = unit([vector for _, vector in vectors], meta[1] if meta is not None else dimension)
    rows = await connection.fetch(_EMBEDDED, [to_postgres(one.id) for one, _ in vectors])
    there = {(row[1], row[2]): row[0] for row in rows}
    places = {there.get((to_postgres(one.id), to_postgres(one.hash)), 0): at for at, (one, _) in enumerate(vectors)}
    places.pop(0, None)
    if not places:
        return 0
    if meta is None:
        # A graph over other vectors accepts none of these, and building one at the end is faster.
        for (graph,) in await connection.fetch(GRAPHS):
            await connection.execute(f"DROP INDEX {graph}")
    if bits is not None and version is not None:
        await tokens.store(connection, version, {key: bits[at] for key, at in places.items()})
    done = {key for key, _, _, embedded in rows if embedded}
    await connection.executemany(
        "INSERT INTO vectors (key, vector) VALUES ($1, $2::real[]::vector)",
        [(key, found[at].tolist()) for key, at in places.items() if key not in done],
    )
    await connection.execute("DELETE FROM waiting WHERE key = ANY($1::bigint[])", list(places))
    if meta is None:
        await connection.executemany(
            "INSERT INTO meta (name, value) VALUES ($1, $2)",
            [("model", to_postgres(model)), ("dimension", str(found.shape[1]))],
        )
    return len(places)


async def model_of(connection: Any) -> tuple[str, int] | None:
    """Return the model and the dimension of the stored vectors."""
    meta = dict(await connection.fetch("SELECT name, value FROM meta WHERE name IN ('model', 'dimension')"))
    return (meta["model"], int(meta["dimension"])) if len(meta) == 2 else None


async def _part(connection: Any, name: str, agent: str, revision: str) -> int:
    given = to_postgres(name), to_postgres(agent), to_postgres(revision)
    key = await connection.fetchval("UPDATE parts SET agent = $2, revision = $3 WHERE name = $1 RETURNING key", *given)
    if key is None:
        sql = "INSERT INTO parts (name, agent, revision) VALUES ($1, $2, $3) RETURNING key"
        key = await connection.fetchval(sql, *given)
    return int(key)


async def _existing(connection: Any, condition: str, value: Any) -> dict[str, ExistingEntry]:
    rows = await connection.fetch(_EXISTING + condition, value)
    return {row[1]: ExistingEntry(*row) for row in rows}


async def _merge(
    connection: Any, part: int, fresh: dict[str, NewEntry], there: dict[str, ExistingEntry], groups: set[int | None]
) -> tuple[int, int]:
    """Insert or update entries that are new, changed or moved, then relink the neighbours in these groups. Returns
    (changed, unchanged)."""
    unknown = [identity for identity in fresh if identity not in there]
    if unknown:
        there = {**there, **await _existing(connection, "id = ANY($1::text[])", unknown)}
    pairs = [(one, there.get(identity)) for identity, one in fresh.items()]
    written = [
        (one, found)
        for one, found in pairs
        if found is None or (found.content, found.position) != (one.content, one.position)
    ]
    new = sum(found is None for _, found in written)
    sql = "SELECT nextval('keys') FROM generate_series(1, $1)"
    given = iter([row[0] for row in await connection.fetch(sql, new)] if new else [])
    keyed = [(next(given) if found is None else found.key, one, found) for one, found in written]
    touched = await _touched(
        connection, [found.id for _, one, found in keyed if found and found.content != one.content]
    )
    for begin in range(0, len(keyed), _AT_ONCE):
        await _write(connection, part, keyed[begin : begin + _AT_ONCE])
    said = [to_postgres(one.entry.id) for _, one, found in keyed if not found or found.content != one.content]
    await _hide(connection, touched | await _touched(connection, said))
    groups |= {found.group for _, _, found in keyed if found is not None} | {one.group for _, one, _ in keyed}
    await _link_neighbours(connection, groups)
    changed = sum(found is None or found.content != one.content for one, found in pairs)
    return changed, len(fresh) - changed


async def _write(connection: Any, part: int, keyed: Sequence[tuple[int, NewEntry, ExistingEntry | None]]) -> None:
    entries = [one.entry for _, one, _ in keyed]
    keys, groups = [key for key, _, _ in keyed], [one.group for _, one, _ in keyed]
    times = [microseconds(entry.time) for entry in entries]
    await connection.execute(
        _ENTRIES, part, keys, [to_postgres(entry.id) for entry in entries],
        [to_postgres(entry.hash) for entry in entries],
        [one.content for _, one, _ in keyed], [one.position for _, one, _ in keyed], groups,
        [to_postgres(entry.text) for entry in entries], [to_postgres(entry.group) for entry in entries],
        [entry.line for entry in entries], [to_postgres(entry.rest) for entry in entries],
        [array(map(to_postgres, entry.other_sources)) for entry in entries],
        [array(map(to_postgres, entry.tags)) for entry in entries],
    )  # fmt: skip
    await connection.execute(
        _PLACES, keys, [to_postgres(entry.agent) for entry in entries], [to_postgres(entry.user) for entry in entries],
        [_maybe(entry.project) for entry in entries], [to_postgres(entry.type) for entry in entries],
        [_maybe(entry.source) for entry in entries], [_maybe(entry.author) for entry in entries],
        times, [entry.order for entry in entries], [asks(entry.text) for entry in entries], groups,
        [one.counted.text for _, one, _ in keyed], [one.counted.about for _, one, _ in keyed],
        [array(str(code(tag)) for tag in entry.tags) for entry in entries],
        [array(str(code(source)) for source in entry.other_sources) for entry in entries],
        [_maybe(entry.subject) for entry in entries],
    )  # fmt: skip
    said = [(key, one) for key, one, found in keyed if found is None or found.content != one.content]
    await _write_changes(connection, [(key, one.entry) for key, one in said])
    if said:
        stems = [one.counted.stems for _, one in said]
        await connection.execute(_WORDS, [key for key, _ in said], list(map(array, stems)), list(map(_often, stems)))
    waits = [found is None or found.hash != to_postgres(one.entry.hash) for _, one, found in keyed]
    stale = [key for (key, _, found), wait in zip(keyed, waits, strict=True) if wait and found is not None]
    if stale:
        await connection.execute("DELETE FROM vectors WHERE key = ANY($1::bigint[])", stale)
    new = [(key, time) for key, time, wait in zip(keys, times, waits, strict=True) if wait]
    old = [(key, time) for key, time, wait in zip(keys, times, waits, strict=True) if not wait]
    for sql, pairs in ((_WAITING, new), (_WAITS_SINCE, old)):
        if pairs:
            await connection.execute(sql, *map(list, zip(*pairs, strict=True)))


def _often(stems: dict[str, tuple[int, int]]) -> str:
    often = {term: text << 32 | about for term, (text, about) in stems.items() if (text, about) != (1, 0)}
    return msgspec.json.encode(often).decode()


def _maybe(text: str | None) -> str | None:
    return None if text is None else to_postgres(text)


async def _remove(connection: Any, keys: list[int]) -> None:
    if keys:
        await connection.execute(_REMOVE, keys)
        # Counts that cancel out must not name deleted users or authors either.
        await fold(connection)


async def _write_changes(connection: Any, written: Sequence[tuple[int, IndexEntry]]) -> None:
    naming = [(key, entry) for key, entry in written if entry.replaces is not None or entry.retracts is not None]
    if len(naming) < len(written):
        others = [key for key, entry in written if entry.replaces is None and entry.retracts is None]
        await connection.execute("DELETE FROM changes WHERE key = ANY($1::bigint[])", others)
    if naming:
        replaces, retracts = (
            [_maybe(getattr(entry, name)) for _, entry in naming] for name in ("replaces", "retracts")
        )
        await connection.execute(_CHANGES, [key for key, _ in naming], replaces, retracts)


async def _touched(connection: Any, ids: Sequence[str]) -> set[str]:
    """Return these ids and those that their entries name, if any entry names another one."""
    if not ids or not await connection.fetchval("SELECT EXISTS (SELECT FROM changes)"):
        return set()
    return {*ids, *(name for (name,) in await connection.fetch(_NAMED, list(ids)) if name is not None)}


async def _hide(connection: Any, ids: set[str]) -> None:
    """Set which entries are hidden, of those with these ids and those that these name."""
    if ids:
        await connection.execute(_HIDE, list(await _touched(connection, list(ids)) | ids))


async def _link_neighbours(connection: Any, groups: set[int | None]) -> None:
    """Recompute the neighbour links of these groups."""
    known = [group for group in groups if group is not None]
    if known:
        await connection.execute(_LINK, known)
