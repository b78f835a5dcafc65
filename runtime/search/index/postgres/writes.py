"""Changes of an index in PostgreSQL: each function runs in an exclusive transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from runtime.search.entry import IndexEntry
from runtime.search.index.embedded.columns import asks
from runtime.search.index.embedded.matrix import unit
from runtime.search.index.embedded.schema import content_of, microseconds
from runtime.search.index.index import IndexChange, PendingEntry
from runtime.search.index.postgres.queries import DIMENSION, MODEL, TOKEN_BITS, meta
from runtime.search.index.postgres.text import hash_of, to_postgres, to_postgres_or_none, tsvector
from runtime.search.index.postgres.vector_search import hnsw_of, indexed_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AT_ONCE = 1000
"""Maximum number of rows in one statement."""


def _upsert(table: str, columns: str) -> str:
    """Return the statement that writes rows, given as JSON, by their key."""
    names = [f'"{name}"' for name in columns.split()]
    given, replaced = ", ".join(names), ", ".join(f"excluded.{name}" for name in names)
    return (
        f"INSERT INTO {table} ({given}) SELECT {given} FROM json_populate_recordset(NULL::{table}, $1::json)"  # noqa: S608
        f" ON CONFLICT (key) DO UPDATE SET ({given}) = ROW ({replaced})"
    )


_ENTRIES = _upsert("entries", "key hash content position part text group line rest words")
_FACTS = _upsert(
    "entry_facts",
    "key id agent user project type time order source other_sources tags author subject replaces retracts asks words"
    " neighbour_group before after embedded tokenized",
)
_TEXTS = ("id", "agent", "user", "project", "type", "source", "author", "subject", "replaces", "retracts")
"""The texts of an entry that filters read."""
_EXISTING = """
SELECT key, f.id, e.hash, e.content, e.position, f.neighbour_group, f.embedded, f.tokenized
FROM entries e JOIN entry_facts f USING (key) WHERE """
_LINK = """
WITH line AS MATERIALIZED (
    SELECT key, lag(key, 1, 0::bigint) OVER line AS before, lead(key, 1, 0::bigint) OVER line AS after
    FROM entry_facts WHERE neighbour_group = ANY($1::bigint[])
    WINDOW line AS (PARTITION BY neighbour_group ORDER BY time, "order", id COLLATE "C")
)
UPDATE entry_facts f SET before = line.before, after = line.after FROM line
WHERE f.key = line.key AND (f.before, f.after) IS DISTINCT FROM (line.before, line.after)"""


class NewEntry(NamedTuple):
    """An entry to write: digests of its content and of its position, the number of words of its text, and the words
    as a `tsvector`."""

    entry: IndexEntry
    content: bytes
    position: bytes
    group: int | None
    words: int
    tsvector: str


class ExistingEntry(NamedTuple):
    """An existing entry."""

    key: int
    id: str
    hash: str
    content: bytes
    position: bytes
    group: int | None
    embedded: bool
    tokenized: bool


def new_entries(
    entries: Iterable[IndexEntry], words: Iterable[tuple[Sequence[str], Sequence[str]]], part: str
) -> dict[str, NewEntry]:
    """Return the entries by stored id; of two with one id the later counts. `words`: of each text and metadata."""
    return {to_postgres(entry.id): _new_entry(entry, *each, part) for entry, each in zip(entries, words, strict=True)}


def _new_entry(entry: IndexEntry, text: Sequence[str], about: Sequence[str], part: str) -> NewEntry:
    group = hash_of(f"{entry.agent}\0{entry.group}") if entry.group else None
    content = _digest((entry.id, entry.hash, entry.text, content_of(entry)))
    position = _digest((part, entry.line, entry.order, entry.rest))
    return NewEntry(entry, content, position, group, len(text), tsvector(text, about))


def _digest(what: object) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(what), digest_size=16).digest()


async def put(connection: Any, part: str, agent: str, revision: str, fresh: dict[str, NewEntry]) -> IndexChange:
    """Replace the entries of the part."""
    key = await _part(connection, part, agent, revision)
    there = await _existing(connection, "part = $1::bigint", key)
    gone = [one for one in there.values() if one.id not in fresh]
    await _remove(connection, gone)
    changed, same = await _merge(connection, key, fresh, there, {one.group for one in gone})
    return IndexChange(changed, same, len(gone))


async def append(
    connection: Any, part: str, agent: str, before: str | None, after: str, fresh: dict[str, NewEntry]
) -> bool:
    """Add entries to the part; False, and nothing done, if its revision is not `before`."""
    found = await connection.fetchval("SELECT revision FROM parts WHERE name = $1", to_postgres(part))
    if to_postgres_or_none(before) != found:
        return False
    await _merge(connection, await _part(connection, part, agent, after), fresh, {}, set())
    return True


async def drop(connection: Any, parts: Sequence[str]) -> int:
    """Delete these parts."""
    names = list(map(to_postgres, parts))
    rows = await connection.fetch("DELETE FROM parts WHERE name = ANY($1::text[]) RETURNING key", names)
    gone = await _existing(connection, "part = ANY($1::bigint[])", [key for (key,) in rows])
    await _remove(connection, gone.values())
    await _link_neighbours(connection, {one.group for one in gone.values()})
    return len(gone)


async def clear(connection: Any) -> None:
    """Delete everything."""
    await connection.execute("TRUNCATE parts, entries, entry_facts, vectors, tokens")
    await _forget_model(connection)


async def use_model(connection: Any, model: str, dimension: int | None, version: str | None) -> None:
    """Delete vectors of another model or dimension, and token bits of another version."""
    known = await meta(connection)
    if MODEL in known and (known[MODEL] != model or dimension not in {None, int(known[DIMENSION])}):
        await connection.execute("TRUNCATE vectors, tokens")
        await connection.execute("UPDATE entry_facts SET embedded = false, tokenized = false")
        await _forget_model(connection)
    if version is not None and known.get(TOKEN_BITS) != version:
        await connection.execute("TRUNCATE tokens")
        await connection.execute("UPDATE entry_facts SET tokenized = false WHERE tokenized")
        await _note(connection, TOKEN_BITS, version)


async def _forget_model(connection: Any) -> None:
    await connection.execute("DROP INDEX IF EXISTS vectors_nearest")  # It accepts only vectors of the same dimension.
    await connection.execute("DELETE FROM meta WHERE name = ANY($1::text[])", [MODEL, DIMENSION])


async def _note(connection: Any, name: str, value: str) -> None:
    sql = "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    await connection.execute(sql, name, value)


async def embed(
    connection: Any,
    pgvector: tuple[int, ...],
    model: str,
    dimension: int | None,
    vectors: Sequence[tuple[PendingEntry, NDArray[np.float32]]],
    bits: Sequence[bytes] | None,
    version: str | None,
) -> int:
    """Store vectors of `dimension`, or of that of existing ones, and token bits of `version`; return how many were
    stored. An existing vector stays. Raises EmbeddingMismatch."""
    known = await meta(connection)
    if known.get(MODEL, model) != model:
        return 0  # Another daemon with another model was first.
    found = unit([vector for _, vector in vectors], int(known[DIMENSION]) if DIMENSION in known else dimension)
    there = await _existing(connection, "f.id = ANY($1::text[])", [to_postgres(one.id) for one, _ in vectors])
    stored_at = {
        one.key: at
        for at, (each, _) in enumerate(vectors)
        if (one := there.get(to_postgres(each.id))) is not None and one.hash == to_postgres(each.hash)
    }
    if not stored_at:
        return 0
    if MODEL not in known:
        size = int(found.shape[1])
        await _note(connection, MODEL, model)
        await _note(connection, DIMENSION, str(size))
        if (type_ := indexed_type(size, pgvector)) is not None:
            await connection.execute(hnsw_of(type_))
    await connection.executemany(
        "INSERT INTO vectors (key, vector) VALUES ($1, $2::real[]::vector) ON CONFLICT (key) DO NOTHING",
        [(key, found[at].tolist()) for key, at in stored_at.items()],
    )
    if version is not None and TOKEN_BITS not in known:  # The tables were made again since the version was said.
        await _note(connection, TOKEN_BITS, version)
    has_bits = bits is not None and version is not None and known.get(TOKEN_BITS, version) == version
    if bits is not None and has_bits:
        await connection.executemany(
            "INSERT INTO tokens (key, bits) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING",
            [(key, bits[at]) for key, at in stored_at.items()],
        )
    sql = "UPDATE entry_facts SET embedded = true, tokenized = tokenized OR $2 WHERE key = ANY($1::bigint[])"
    await connection.execute(sql, list(stored_at), has_bits)
    return len(stored_at)


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
        there = {**there, **await _existing(connection, "f.id = ANY($1::text[])", unknown)}
    pairs = [(one, there.get(identity)) for identity, one in fresh.items()]
    written = [
        (one, found)
        for one, found in pairs
        if found is None or (found.content, found.position) != (one.content, one.position)
    ]
    new = sum(found is None for _, found in written)
    sql = "SELECT nextval('keys') FROM generate_series(1, $1)"
    keys = iter([row[0] for row in await connection.fetch(sql, new)] if new else [])
    keyed = [(next(keys) if found is None else found.key, one, found) for one, found in written]
    for begin in range(0, len(keyed), _AT_ONCE):
        await _write(connection, part, keyed[begin : begin + _AT_ONCE])
    groups |= {found.group for _, _, found in keyed if found is not None} | {one.group for _, one, _ in keyed}
    await _link_neighbours(connection, groups)
    changed = sum(found is None or found.content != one.content for one, found in pairs)
    return changed, len(fresh) - changed


async def _write(connection: Any, part: int, keyed: Sequence[tuple[int, NewEntry, ExistingEntry | None]]) -> None:
    entries, facts, stale = [], [], []
    for key, one, found in keyed:
        entry = one.entry
        kept = found is not None and found.hash == to_postgres(entry.hash)
        if found is not None and found.embedded and not kept:
            stale.append(key)
        entries.append(
            {
                "key": key,
                "hash": to_postgres(entry.hash),
                "content": f"\\x{one.content.hex()}",
                "position": f"\\x{one.position.hex()}",
                "part": part,
                "text": to_postgres(entry.text),
                "group": to_postgres(entry.group),
                "line": entry.line,
                "rest": to_postgres(entry.rest),
                "words": one.tsvector,
            }
        )
        facts.append(
            {
                **{name: to_postgres_or_none(getattr(entry, name)) for name in _TEXTS},
                **{name: list(map(to_postgres, getattr(entry, name))) for name in ("other_sources", "tags")},
                "key": key,
                "time": microseconds(entry.time),
                "order": entry.order,
                "asks": asks(entry.text),
                "words": one.words,
                "neighbour_group": one.group,
                "before": 0,
                "after": 0,
                "embedded": kept and found is not None and found.embedded,
                "tokenized": kept and found is not None and found.tokenized,
            }
        )
    await connection.execute(_ENTRIES, msgspec.json.encode(entries).decode())
    await connection.execute(_FACTS, msgspec.json.encode(facts).decode())
    for table in ("vectors", "tokens") if stale else ():
        await connection.execute(f"DELETE FROM {table} WHERE key = ANY($1::bigint[])", stale)  # noqa: S608


async def _remove(connection: Any, gone: Iterable[ExistingEntry]) -> None:
    """Delete these entries, and by their foreign keys all that belongs to them."""
    if keys := [one.key for one in gone]:
        await connection.execute("DELETE FROM entries WHERE key = ANY($1::bigint[])", keys)


async def _link_neighbours(connection: Any, groups: set[int | None]) -> None:
    """Recompute the neighbour links of these groups."""
    known = [group for group in groups if group is not None]
    if known:
        await connection.execute(_LINK, known)
