"""The known state of the points on a server, in the index's own file and in the transactions that change it.

An entry with a correct point has a mark in place of its vector, a vector of one number. Points that may be wrong are in
the table `stale` until the server has confirmed their correction: the payload is written again for an entry with a
mark, any other point is deleted. So an interrupted operation is repeated, and nothing is forgotten here before it is
deleted there.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.index.embedded import writes
from runtime.search.index.embedded.access import Access, Apply
from runtime.search.index.embedded.in_memory import IndexInMemory
from runtime.search.index.embedded.schema import COLUMNS, entry_of, place_of
from runtime.search.index.index import AppendedEntries, IndexChange, IndexStats, Pending, Scored
from runtime.search.index.qdrant.point import more_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TABLE = "CREATE TABLE IF NOT EXISTS stale (id TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID"
_STRAYS = "CREATE TABLE IF NOT EXISTS strays (point TEXT PRIMARY KEY, since REAL NOT NULL) WITHOUT ROWID"
_LISTED = "IN (SELECT value FROM json_each(?))"
_ROWS = f"""SELECT e.key, p.name, {", ".join(f"e.{name}" for name in COLUMNS)}
    FROM entries e JOIN parts p ON p.key = e.part WHERE e.key {_LISTED}"""  # noqa: S608 - names of ours
_SAYS = f"SELECT key, id, hash, text, said, place FROM entries WHERE key {_LISTED}"  # noqa: S608
_DIMENSION, _PLACE = "dimension of points", "place of points"


class Stale(NamedTuple):
    """A Qdrant point to rewrite from `entry`, or to delete if None. Confirmed by `token`, so a later change is not
    lost."""

    id: str
    token: int
    entry: IndexEntry | None


class SyncState:
    """The marks of one index. Every method raises IndexFailed."""

    def __init__(self, access: Access, place: str) -> None:
        """`place`: of the points, so that marks of points elsewhere are recognised."""
        self._access = access
        self._place = place
        self._there = False
        self.dimension: int | None = None
        """The dimension of the vectors on the server, if there are marks."""

    async def open(self) -> bool:
        """Read the state; True if anything is stale."""

        def work(loaded: IndexInMemory) -> tuple[bool, Apply]:
            row = loaded.file.writing.execute("SELECT value FROM meta WHERE name = ?", (_DIMENSION,)).fetchone()
            self.dimension = None if row is None else int(row[0])
            row = loaded.file.writing.execute("SELECT value FROM meta WHERE name = ?", (_PLACE,)).fetchone()
            self._there = row is not None and row[0] == self._place
            return _any_stale(loaded), _nothing

        return await self._access.write(work)

    # Changes of entries, which record the points that become stale.

    async def put(
        self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]
    ) -> tuple[IndexChange, bool]:
        """Call `Index.put`; also return True if points became stale."""

        def work(loaded: IndexInMemory) -> tuple[tuple[IndexChange, bool], Apply]:
            before = _seen(loaded, [*_of_parts(loaded, [part]), *_of_ids(loaded, entries)])
            change, delta = writes.put(loaded.file.writing, loaded.rows, part, agent, revision, entries)
            return (change, _note(loaded, before)), lambda loaded: loaded.apply(delta)

        return await self._access.write(work)

    async def grow_each(self, grown: Sequence[AppendedEntries]) -> tuple[list[bool], bool]:
        """Call `Index.grow_each`; also return True if points became stale."""

        def work(loaded: IndexInMemory) -> tuple[tuple[list[bool], bool], Apply]:
            seen = _seen(loaded, _of_ids(loaded, [entry for each in grown for entry in each.entries]))
            done, delta = writes.grow_each(loaded.file.writing, loaded.rows, grown)
            return (done, _note(loaded, seen)), lambda loaded: loaded.apply(delta)

        return await self._access.write(work)

    async def drop(self, parts: Sequence[str]) -> tuple[int, bool]:
        """Call `Index.drop`; also return True if points became stale."""

        def work(loaded: IndexInMemory) -> tuple[tuple[int, bool], Apply]:
            seen = _seen(loaded, _of_parts(loaded, parts))
            gone, delta = writes.drop(loaded.file.writing, loaded.rows, parts)
            return (gone, _note(loaded, seen)), lambda loaded: loaded.apply(delta)

        return await self._access.write(work)

    # Creation of points.

    async def intend(self, waiting: Sequence[Pending]) -> tuple[dict[str, IndexEntry], int, int]:
        """Return those of these entries that are unchanged and have no mark, by id, how many of the unchanged ones
        have a mark, and a token. Points of the former are stale until they are marked with that token."""
        token = _token()

        def work(loaded: IndexInMemory) -> tuple[tuple[dict[str, IndexEntry], int], Apply]:
            hashes = {one.id: one.hash for one in waiting}
            found = _entries(loaded, loaded.rows.of_ids(hashes))
            found = {key: entry for key, entry in found.items() if hashes.get(entry.id) == entry.hash}
            entries = {entry.id: entry for key, entry in found.items() if not loaded.rows.embedded[key]}
            _make_stale(loaded, entries, token)
            return (entries, len(found) - len(entries)), _nothing

        return *await self._access.write(work), token

    async def mark(self, waiting: Sequence[Pending], model: str, dimension: int, token: int) -> int:
        """Mark the points of these entries as correct, unless the entry has changed since; return how many were
        marked."""
        one = np.ones(1, np.float32)

        def work(loaded: IndexInMemory) -> tuple[int, Apply]:
            connection = loaded.file.writing
            given = [(each, one) for each in waiting]
            keys, kept = writes.embed(connection, loaded.rows, model, 1, given)
            sql = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)"
            connection.executemany(sql, ((_DIMENSION, dimension), (_PLACE, self._place)))
            _settle(loaded, ((each.id, token) for each in waiting))
            return len(keys), lambda loaded: loaded.embed(keys, kept, model)

        done = await self._access.write(work)
        self.dimension, self._there = dimension, True
        return done

    async def put_tokens(self, waiting: Sequence[Pending], bits: Sequence[bytes], version: str) -> None:
        """Store the token bits of these entries, unless the entry has changed since."""

        def work(loaded: IndexInMemory) -> tuple[None, Apply]:
            keys = writes.put_tokens(loaded.file.writing, loaded.rows, version, waiting, bits)
            return None, lambda loaded: loaded.put_tokens(keys, version)

        await self._access.write(work)

    async def stale(self, limit: int) -> list[Stale]:
        """Return up to `limit` stale points."""

        def work(loaded: IndexInMemory) -> tuple[list[Stale], Apply]:
            connection = loaded.file.writing
            connection.execute(_TABLE)
            tokens = dict(connection.execute("SELECT id, token FROM stale LIMIT ?", (limit,)))
            keys = [key for key in loaded.rows.of_ids(tokens) if loaded.rows.embedded[key]]
            entries = {entry.id: entry for entry in _entries(loaded, keys).values()}
            return [Stale(name, token, entries.get(name)) for name, token in tokens.items()], _nothing

        return await self._access.write(work)

    async def settled(self, done: Sequence[Stale]) -> None:
        """Note that the server has confirmed these."""

        def work(loaded: IndexInMemory) -> tuple[None, Apply]:
            _settle(loaded, ((one.id, one.token) for one in done))
            return None, _nothing

        await self._access.write(work)

    # Differences found on the server.

    async def others_than(self, model: str, dimension: int | None) -> bool:
        """True if there are marks of another model, or of another dimension if that is given."""
        return await self._access.read(lambda loaded: loaded.others_than(model, None)) or (
            dimension is not None and self.dimension not in {None, dimension} and await self.count() > 0
        )

    async def forget(self) -> None:
        """Forget all points: every entry becomes pending, and nothing is stale."""

        def work(loaded: IndexInMemory) -> tuple[None, Apply]:
            connection = loaded.file.writing
            writes.forget_vectors(connection)
            connection.execute("DELETE FROM meta WHERE name IN (?, ?)", (_DIMENSION, _PLACE))
            connection.execute(_TABLE)
            connection.execute("DELETE FROM stale")
            return None, IndexInMemory.forget_vectors

        await self._access.write(work)
        self.dimension, self._there = None, False

    async def known(self, ids: Collection[str]) -> dict[str, tuple[IndexEntry, bool]]:
        """Return the entries of these ids, each with True if it has a mark."""

        def look(loaded: IndexInMemory) -> dict[str, tuple[IndexEntry, bool]]:
            found = _entries(loaded, loaded.rows.of_ids(ids), reading=True)
            return {entry.id: (entry, bool(loaded.rows.embedded[key])) for key, entry in found.items()}

        return await self._access.read(look)

    async def strays(self, points: Collection[str], now: float, grace: float) -> list[str]:
        """Return those of all existing points that have belonged to no entry for `grace` seconds."""

        def work(loaded: IndexInMemory) -> tuple[list[str], Apply]:
            connection = loaded.file.writing
            connection.execute(_STRAYS)
            before = dict(connection.execute("SELECT point, since FROM strays"))
            since = {point: before.get(point, now) for point in points}
            due = [point for point, first in since.items() if now - first >= grace]
            connection.execute("DELETE FROM strays")
            rest = since.keys() - set(due)
            connection.executemany("INSERT INTO strays (point, since) VALUES (?, ?)", ((p, since[p]) for p in rest))
            return due, _nothing

        return await self._access.write(work)

    async def mistrust(self, ids: Collection[str]) -> None:
        """Make the points of these stale."""

        def work(loaded: IndexInMemory) -> tuple[None, Apply]:
            _make_stale(loaded, ids, _token())
            return None, _nothing

        await self._access.write(work)

    async def missing(self, there: Collection[str]) -> int:
        """Keep only the marks and token bits of ids that are `there`; return how many were removed."""

        def work(loaded: IndexInMemory) -> tuple[int, Apply]:
            marked = np.flatnonzero(loaded.rows.embedded[: loaded.rows.end])
            gone = np.setdiff1d(marked, np.array(loaded.rows.of_ids(there), np.int64))
            connection = loaded.file.writing
            writes.unembed(connection, gone.tolist())

            def apply(loaded: IndexInMemory) -> None:
                loaded.rows.embedded[gone] = loaded.rows.tokenized[gone] = False

            return len(gone), apply

        return await self._access.write(work)

    # Queries of a search.

    async def count(self) -> int:
        """Return the number of entries with a mark."""
        return await self._access.glance(lambda loaded: int(np.count_nonzero(loaded.rows.embedded[: loaded.rows.end])))

    async def are_there(self) -> bool:
        """True if points were made in this very place: its content is ours even if it does not say so."""
        return self._there and await self.count() > 0

    async def ids(self, handles: NDArray[np.int64]) -> list[str]:
        """Return the ids of the entries with these keys that have a mark."""

        def look(loaded: IndexInMemory) -> list[str]:
            keys = loaded.rows.keys(np.asarray(handles, np.int64).reshape(-1))
            keys = keys[loaded.rows.embedded[keys]]
            sql = f"SELECT id FROM entries WHERE key {_LISTED}"  # noqa: S608
            return [name for (name,) in loaded.file.reading.execute(sql, (_json(keys.tolist()),))]

        return await self._access.read(look)

    async def keyed(self, found: Sequence[tuple[str, float]], wanted: EntryFilter) -> tuple[Scored, int]:
        """Return found points that are wanted and marked here, by key, best first; and how many would be."""

        def look(loaded: IndexInMemory) -> tuple[Scored, int]:
            rows = loaded.rows
            mask = loaded.wanted(wanted) & rows.embedded[: rows.end]
            keys = np.array(rows.of_ids([name for name, _ in found]), np.int64)
            by_id = {int(rows.id[key]): key for key in keys.tolist() if mask[key]}
            pairs = [(by_id[code], score) for name, score in found if (code := hash(name)) in by_id]
            chosen = np.array([key for key, _ in pairs], np.int64)
            scores = np.array([score for _, score in pairs], np.float32)
            order = np.lexsort((chosen, -scores))
            return Scored(rows.handles(chosen[order]), scores[order]), int(np.count_nonzero(mask))

        return await self._access.read(look)

    async def hidden(self, wanted: EntryFilter) -> list[str]:
        """Return the ids of the hidden entries that the filter leaves out but would otherwise want."""

        def look(loaded: IndexInMemory) -> list[str]:
            keys = loaded.rows.hidden()
            if not keys.size:
                return []
            mask = loaded.wanted(replace(wanted, current=False)) & loaded.rows.embedded[: loaded.rows.end]
            return list(loaded.ids(keys[mask[keys]].tolist()).values())

        return await self._access.read(look) if wanted.current else []

    def index_stats(self, stats: IndexStats) -> IndexStats:
        """Return the statistics of the index from those of its file: marks count as vectors of the server."""
        return stats._replace(dimension=self.dimension if stats.embedded else None)


def _nothing(_loaded: IndexInMemory) -> None:
    return None


def _token() -> int:
    return secrets.randbits(62)


def _json(values: Iterable[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()


def _any_stale(loaded: IndexInMemory) -> bool:
    loaded.file.writing.execute(_TABLE)
    return bool(loaded.file.writing.execute("SELECT EXISTS (SELECT 1 FROM stale)").fetchone()[0])


def _of_parts(loaded: IndexInMemory, parts: Sequence[str]) -> list[int]:
    sql = f"SELECT key FROM parts WHERE name {_LISTED}"  # noqa: S608
    keys = [key for (key,) in loaded.file.writing.execute(sql, (_json(parts),))]
    return loaded.rows.of_parts(keys) if keys else []


def _of_ids(loaded: IndexInMemory, entries: Sequence[IndexEntry]) -> list[int]:
    return loaded.rows.of_ids({entry.id for entry in entries}) if loaded.rows.end > 1 else []


class _Said(NamedTuple):
    """The content of an entry's point, as stored in the file."""

    id: str
    hash: str
    text: str
    said: bytes
    rest: str

    def differs(self, other: _Said | None) -> bool:
        if other is None or self[:4] != other[:4]:
            return True
        return self.rest != other.rest and more_of(self.rest) != more_of(other.rest)


_Seen = dict[int, _Said]


def _seen(loaded: IndexInMemory, keys: list[int]) -> _Seen:
    """Return the content of the points of these entries; empty while there are no points."""
    if not keys or (loaded.model is None and not _any_stale(loaded)):
        return {}
    rows = loaded.file.writing.execute(_SAYS, (_json(keys),))
    return {key: _Said(name, hash_, text, said, place_of(at)[2]) for key, name, hash_, text, said, at in rows}


def _note(loaded: IndexInMemory, before: _Seen) -> bool:
    """Make stale what differs or is gone since it was read; True if there is any."""
    if not before:
        return False
    after = _seen(loaded, list(before))
    differ = {key: said.id for key, said in before.items() if said.differs(after.get(key))}
    embedded = loaded.rows.embedded
    token = _token()
    _make_stale(loaded, [name for key, name in differ.items() if embedded[key]], token)
    # Their points are being created at this moment.
    sql = "UPDATE stale SET token = ? WHERE id = ?"
    loaded.file.writing.executemany(sql, ((token, name) for key, name in differ.items() if not embedded[key]))
    return bool(differ)


def _make_stale(loaded: IndexInMemory, ids: Iterable[str], token: int) -> None:
    loaded.file.writing.execute(_TABLE)
    sql = "INSERT OR REPLACE INTO stale (id, token) VALUES (?, ?)"
    loaded.file.writing.executemany(sql, ((name, token) for name in ids))


def _settle(loaded: IndexInMemory, done: Iterable[tuple[str, int]]) -> None:
    loaded.file.writing.execute(_TABLE)
    loaded.file.writing.executemany("DELETE FROM stale WHERE id = ? AND token = ?", done)


def _entries(loaded: IndexInMemory, keys: list[int], *, reading: bool = False) -> dict[int, IndexEntry]:
    if not keys:
        return {}
    connection = loaded.file.reading if reading else loaded.file.writing
    return {key: entry_of(row, part) for key, part, *row in connection.execute(_ROWS, (_json(keys),))}
