"""What is known here of the points that a server holds: in the index's own file, in the transactions that change it.

An entry whose point is as it should be has a mark, which is its vector here, of one number. What may be otherwise over
there stands in the table `stale` until the server has confirmed that it is mended: an entry with a mark has its payload
written again, anything else its point deleted. So whatever is cut off in the middle is done again, and nothing that is
forgotten here is forgotten before it is gone there.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from runtime.search.entry import Filter, IndexEntry
from runtime.search.index.embedded import writes
from runtime.search.index.embedded.access import Access, Apply
from runtime.search.index.embedded.in_memory import IndexInMemory
from runtime.search.index.embedded.schema import COLUMNS, entry_of, place_of
from runtime.search.index.index import IndexChange, IndexStats, Pending, Scored
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
    """A point that may not be as it should: that of `entry`, or to be deleted where that is None. It is settled for
    this `token`, and not when something else became of it meanwhile."""

    id: str
    token: int
    entry: IndexEntry | None


class SyncState:
    """The marks of one index. Everything raises IndexFailed."""

    def __init__(self, access: Access, place: str) -> None:
        """`place`: where the points are, so that marks of points elsewhere are told apart."""
        self._access = access
        self._place = place
        self._there = False
        self.dimension: int | None = None
        """Numbers in the vectors over there, as far as there are marks."""

    async def open(self) -> bool:
        """Read what is there; whether anything is stale."""

        def work(loaded: IndexInMemory) -> tuple[bool, Apply]:
            row = loaded.file.writing.execute("SELECT value FROM meta WHERE name = ?", (_DIMENSION,)).fetchone()
            self.dimension = None if row is None else int(row[0])
            row = loaded.file.writing.execute("SELECT value FROM meta WHERE name = ?", (_PLACE,)).fetchone()
            self._there = row is not None and row[0] == self._place
            return _any_stale(loaded), _nothing

        return await self._access.write(work)

    # What changes entries, and notes which points that makes stale.

    async def put(
        self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]
    ) -> tuple[IndexChange, bool]:
        """As `Index.put`, and whether it made anything stale."""

        def work(loaded: IndexInMemory) -> tuple[tuple[IndexChange, bool], Apply]:
            before = _seen(loaded, [*_of_parts(loaded, [part]), *_of_ids(loaded, entries)])
            change, delta = writes.put(loaded.file.writing, loaded.rows, part, agent, revision, entries)
            return (change, _note(loaded, before)), lambda loaded: loaded.apply(delta)

        return await self._access.write(work)

    async def grow(
        self, part: str, agent: str, before: str | None, after: str, entries: Sequence[IndexEntry]
    ) -> tuple[bool, bool]:
        """As `Index.grow`, and whether it made anything stale."""

        def work(loaded: IndexInMemory) -> tuple[tuple[bool, bool], Apply]:
            seen = _seen(loaded, _of_ids(loaded, entries))
            done, delta = writes.grow(loaded.file.writing, loaded.rows, part, agent, before, after, entries)
            return (done, _note(loaded, seen)), lambda loaded: loaded.apply(delta)

        return await self._access.write(work)

    async def drop(self, parts: Sequence[str]) -> tuple[int, bool]:
        """As `Index.drop`, and whether it made anything stale."""

        def work(loaded: IndexInMemory) -> tuple[tuple[int, bool], Apply]:
            seen = _seen(loaded, _of_parts(loaded, parts))
            gone, delta = writes.drop(loaded.file.writing, loaded.rows, parts)
            return (gone, _note(loaded, seen)), lambda loaded: loaded.apply(delta)

        return await self._access.write(work)

    # Points that are made.

    async def intend(self, waiting: Sequence[Pending]) -> tuple[dict[str, IndexEntry], int]:
        """The entries of these that still say the same, by id. Their points are stale from now on until they are
        marked with the token."""
        token = _token()

        def work(loaded: IndexInMemory) -> tuple[dict[str, IndexEntry], Apply]:
            hashes = {one.id: one.hash for one in waiting}
            found = _entries(loaded, loaded.rows.of_ids(hashes))
            entries = {entry.id: entry for entry in found.values() if hashes.get(entry.id) == entry.hash}
            _make_stale(loaded, entries, token)
            return entries, _nothing

        return await self._access.write(work), token

    async def mark(self, waiting: Sequence[Pending], model: str, dimension: int, token: int) -> int:
        """The points of these are as they should be, unless something became of the entry meanwhile; how many were
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

    async def stale(self, limit: int) -> list[Stale]:
        """Up to `limit` points that may not be as they should."""

        def work(loaded: IndexInMemory) -> tuple[list[Stale], Apply]:
            connection = loaded.file.writing
            connection.execute(_TABLE)
            tokens = dict(connection.execute("SELECT id, token FROM stale LIMIT ?", (limit,)))
            keys = [key for key in loaded.rows.of_ids(tokens) if loaded.rows.embedded[key]]
            entries = {entry.id: entry for entry in _entries(loaded, keys).values()}
            return [Stale(name, token, entries.get(name)) for name, token in tokens.items()], _nothing

        return await self._access.write(work)

    async def settled(self, done: Sequence[Stale]) -> None:
        """The server has confirmed these."""

        def work(loaded: IndexInMemory) -> tuple[None, Apply]:
            _settle(loaded, ((one.id, one.token) for one in done))
            return None, _nothing

        await self._access.write(work)

    # What turns out to be otherwise over there.

    async def others_than(self, model: str, dimension: int | None) -> bool:
        """Whether there are marks of another model, or of vectors of another dimension than this, if it is known."""
        return await self._access.read(lambda loaded: loaded.others_than(model, None)) or (
            dimension is not None and self.dimension not in {None, dimension} and await self.count() > 0
        )

    async def forget(self) -> None:
        """There are no points: everything waits for its vector again, and nothing is stale."""

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
        """The entries of these ids, and whether each has a mark."""

        def look(loaded: IndexInMemory) -> dict[str, tuple[IndexEntry, bool]]:
            found = _entries(loaded, loaded.rows.of_ids(ids), reading=True)
            return {entry.id: (entry, bool(loaded.rows.embedded[key])) for key, entry in found.items()}

        return await self._access.read(look)

    async def strays(self, points: Collection[str], now: float, grace: float) -> list[str]:
        """These points, all that there are, are of no entry. Those of them for which that is so since `grace` seconds
        ago."""

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
        """The points of these may say something else than they should."""

        def work(loaded: IndexInMemory) -> tuple[None, Apply]:
            _make_stale(loaded, ids, _token())
            return None, _nothing

        await self._access.write(work)

    async def missing(self, there: Collection[str]) -> int:
        """Of all marks only those of the ids that are `there` stay; how many were taken away."""

        def work(loaded: IndexInMemory) -> tuple[int, Apply]:
            marked = np.flatnonzero(loaded.rows.embedded[: loaded.rows.end])
            gone = np.setdiff1d(marked, np.array(loaded.rows.of_ids(there), np.int64))
            connection = loaded.file.writing
            connection.executemany("DELETE FROM vectors WHERE key = ?", ((key,) for key in gone.tolist()))

            def apply(loaded: IndexInMemory) -> None:
                loaded.rows.embedded[gone] = False

            return len(gone), apply

        return await self._access.write(work)

    # What a search needs.

    async def count(self) -> int:
        """How many entries have a mark."""
        return await self._access.glance(lambda loaded: int(np.count_nonzero(loaded.rows.embedded[: loaded.rows.end])))

    async def are_there(self) -> bool:
        """Whether points were made in that very place: what is in it is ours, even if it does not say so itself."""
        return self._there and await self.count() > 0

    async def ids(self, handles: NDArray[np.int64]) -> list[str]:
        """The ids of the entries of these keys that have a mark."""

        def look(loaded: IndexInMemory) -> list[str]:
            keys = loaded.rows.keys(np.asarray(handles, np.int64).reshape(-1))
            keys = keys[loaded.rows.embedded[keys]]
            sql = f"SELECT id FROM entries WHERE key {_LISTED}"  # noqa: S608
            return [name for (name,) in loaded.file.reading.execute(sql, (_json(keys.tolist()),))]

        return await self._access.read(look)

    async def keyed(self, found: Sequence[tuple[str, float]], wanted: Filter) -> tuple[Scored, int]:
        """What was found, best first, as far as it is wanted and marked here too, by its keys; and how much would
        be."""

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

    def told(self, stats: IndexStats) -> IndexStats:
        """Numbers of the file as those of the index."""
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
    """What a point says of an entry, as it stands in the file."""

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
    """What points say of these entries. Nothing while there are no points."""
    if not keys or (loaded.model is None and not _any_stale(loaded)):
        return {}
    rows = loaded.file.writing.execute(_SAYS, (_json(keys),))
    return {key: _Said(name, hash_, text, said, place_of(at)[2]) for key, name, hash_, text, said, at in rows}


def _note(loaded: IndexInMemory, before: _Seen) -> bool:
    """Make stale what was seen before and is otherwise or gone by now; whether there is any."""
    if not before:
        return False
    after = _seen(loaded, list(before))
    differ = {key: said.id for key, said in before.items() if said.differs(after.get(key))}
    embedded = loaded.rows.embedded
    token = _token()
    _make_stale(loaded, [name for key, name in differ.items() if embedded[key]], token)
    # Their points are being made just now.
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
