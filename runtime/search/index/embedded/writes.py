"""Changes of an index: each function runs in a transaction and reports its changes for the rows in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from runtime.search.entry import IndexEntry
from runtime.search.index.embedded.columns import Rows, asks
from runtime.search.index.embedded.matrix import unit
from runtime.search.index.embedded.schema import (
    ABOUT,
    COLUMNS,
    CONTENT,
    CONTENT_COLUMNS,
    HASH,
    ID,
    PART,
    POSITION,
    TEXT,
    Content,
    StoredRow,
    content_of,
    decode_content,
    decode_position,
    mark_unscrubbed,
    row_of,
)
from runtime.search.index.embedded.tokenizer import WrittenEntry
from runtime.search.index.index import AppendedEntries, IndexChange, PendingEntry

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SELECT = f"SELECT key, {', '.join(COLUMNS)} FROM entries WHERE "  # noqa: S608 - names of ours
_INSERT = f"INSERT INTO entries ({', '.join(COLUMNS)}, key) VALUES ({', '.join('?' * len(COLUMNS))}, ?)"  # noqa: S608
_UPDATE = f"UPDATE entries SET {', '.join(f'{name} = ?' for name in COLUMNS)} WHERE key = ?"  # noqa: S608
_INDEX = "INSERT INTO words (rowid, text, about) SELECT key, text, about FROM entries WHERE key "
_UNINDEX = "INSERT INTO words (words, rowid, text, about) VALUES ('delete', ?, ?, ?)"
_LISTED = "IN (SELECT value FROM json_each(?))"

RowsById = dict[str, tuple[int, StoredRow]]
"""Existing rows by id, with their keys."""
NewEntry = tuple[StoredRow, Content, int]
"""A row to write, its content, and its order."""


@dataclass
class Delta:
    """The changes of a transaction by key: rows written and removed, vectors and token bits removed, numbers of words
    counted again."""

    keys: list[int] = field(default_factory=list)
    fresh: list[NewEntry] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    unembedded: list[int] = field(default_factory=list)
    sizes: list[tuple[int, bytes]] = field(default_factory=list)
    written: list[WrittenEntry] = field(default_factory=list)
    """The entries whose words were indexed."""

    def put(self, keys: Iterable[int], fresh: Iterable[NewEntry]) -> None:
        """Record that these entries are stored under these keys."""
        self.keys += keys
        self.fresh += fresh

    def apply(self, rows: Rows) -> None:
        """Apply the changes to the rows in memory."""
        rows.remove(self.removed)
        asking = [asks(row[TEXT]) for row, _, _ in self.fresh]
        parts = [row[PART] for row, _, _ in self.fresh]
        ids, orders = [row[ID] for row, _, _ in self.fresh], [order for _, _, order in self.fresh]
        rows.put(self.keys, ids, [content for _, content, _ in self.fresh], parts, orders, asking)
        rows.embedded[self.unembedded] = rows.tokenized[self.unembedded] = False


def put(
    connection: sqlite3.Connection, rows: Rows, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]
) -> tuple[IndexChange, Delta]:
    """Replace the entries of the part."""
    delta = Delta()
    key = _part(connection, part, agent, revision)
    fresh = _new_entries(entries, key)
    there = _existing(connection, rows.of_parts([key]))
    gone = {identity: kept for identity, kept in there.items() if identity not in fresh}
    _remove(connection, list(gone.values()), delta)
    changed, kept = _merge(connection, rows, fresh, there, delta)
    return IndexChange(changed, kept, len(gone)), delta


def append(connection: sqlite3.Connection, rows: Rows, appended: Sequence[AppendedEntries]) -> tuple[list[bool], Delta]:
    """Add entries to each part whose revision is `before`, all together; return for each part if that was so."""
    done: list[bool] = []
    fresh: dict[str, NewEntry] = {}
    for part, agent, before, after, entries in appended:
        found = connection.execute("SELECT revision FROM parts WHERE name = ?", (part,)).fetchone()
        done.append(before == (None if found is None else found[0]))
        if done[-1]:
            fresh |= _new_entries(entries, _part(connection, part, agent, after))
    delta = Delta()
    _merge(connection, rows, fresh, {}, delta)
    return done, delta


def drop(connection: sqlite3.Connection, rows: Rows, parts: Sequence[str]) -> tuple[int, Delta]:
    """Delete these parts."""
    delta, names = Delta(), json_list(parts)
    keys = [key for (key,) in connection.execute(f"SELECT key FROM parts WHERE name {_LISTED}", (names,))]  # noqa: S608
    gone = _existing(connection, rows.of_parts(keys))
    _remove(connection, list(gone.values()), delta)
    connection.execute(f"DELETE FROM parts WHERE name {_LISTED}", (names,))  # noqa: S608
    return len(gone), delta


def forget_vectors(connection: sqlite3.Connection) -> None:
    """Delete all vectors and their model, and all token bits."""
    connection.execute("DELETE FROM vectors")
    connection.execute("DELETE FROM meta WHERE name IN ('model', 'dimension')")
    forget_tokens(connection)


def forget_tokens(connection: sqlite3.Connection) -> None:
    """Delete all token bits and their version."""
    connection.execute("DELETE FROM tokens")
    connection.execute("DELETE FROM meta WHERE name = 'token_bits'")


def embed(
    connection: sqlite3.Connection,
    rows: Rows,
    model: str,
    dimension: int | None,
    vectors: Sequence[tuple[PendingEntry, NDArray[np.float32]]],
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Store vectors of `dimension` (None: of the same one); return the keys of their entries, and the vectors with
    length 1. Raises EmbeddingMismatch."""
    found = unit([vector for _, vector in vectors], dimension)
    places = _keys_of_unchanged(connection, rows, [pending for pending, _ in vectors])
    keys, kept = np.array(list(places), np.int64), found[list(places.values())]
    if len(keys):
        connection.executemany(
            "INSERT OR REPLACE INTO vectors (key, vector) VALUES (?, ?)",
            ((key, row.tobytes()) for key, row in zip(places, kept, strict=True)),
        )
        meta = (("model", model), ("dimension", found.shape[1]))
        connection.executemany("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", meta)
    return keys, kept


def put_tokens(
    connection: sqlite3.Connection, rows: Rows, version: str, waiting: Sequence[PendingEntry], tokens: Sequence[bytes]
) -> NDArray[np.int64]:
    """Store the token bits of these entries, and delete those of other versions; return the keys of the entries."""
    places = _keys_of_unchanged(connection, rows, waiting)
    if places:
        if connection.execute("SELECT value FROM meta WHERE name = 'token_bits'").fetchone() != (version,):
            forget_tokens(connection)
            connection.execute("INSERT INTO meta (name, value) VALUES ('token_bits', ?)", (version,))
        sql = "INSERT OR REPLACE INTO tokens (key, bits) VALUES (?, ?)"
        connection.executemany(sql, ((key, tokens[at]) for key, at in places.items()))
    return np.array(list(places), np.int64)


def _keys_of_unchanged(connection: sqlite3.Connection, rows: Rows, waiting: Sequence[PendingEntry]) -> dict[int, int]:
    """Return the keys of those of these entries that are still there and have not changed, each with its place in
    `waiting`. They are ascending: the newest entries come first, and rows inserted in descending order would leave
    half of each page of the file empty."""
    keys = json_list(rows.of_ids([pending.id for pending in waiting]))
    sql = f"SELECT key, id, hash FROM entries WHERE key {_LISTED}"  # noqa: S608
    there = {(identity, hashed): key for key, identity, hashed in connection.execute(sql, (keys,))}
    places = {there.get((pending.id, pending.hash), 0): at for at, pending in enumerate(waiting)}
    places.pop(0, None)
    return dict(sorted(places.items()))


def _part(connection: sqlite3.Connection, name: str, agent: str, revision: str) -> int:
    sql = (
        "INSERT INTO parts (name, agent, revision) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET agent = excluded.agent, revision = excluded.revision RETURNING key"
    )
    return int(connection.execute(sql, (name, agent, revision)).fetchall()[0][0])


def _new_entries(entries: Sequence[IndexEntry], part: int) -> dict[str, NewEntry]:
    return {entry.id: (row_of(entry, content := content_of(entry), part), content, entry.order) for entry in entries}


def _rows_by_id(rows: Iterable[StoredRow]) -> RowsById:
    return {row[1 + ID]: (row[0], row[1:]) for row in rows}


def _existing(connection: sqlite3.Connection, keys: list[int]) -> RowsById:
    if not keys:
        return {}
    which, values = _key_condition(keys)
    return _rows_by_id(connection.execute(f"{_SELECT} key {which}", values))


def _merge(
    connection: sqlite3.Connection, rows: Rows, fresh: dict[str, NewEntry], there: RowsById, delta: Delta
) -> tuple[int, int]:
    """Write entries that are new, changed or moved. Returns (changed, unchanged)."""
    unknown = fresh.keys() - there.keys()
    if unknown and rows.end > 1:
        there = {**there, **_existing(connection, rows.of_ids(unknown))}
    new: list[NewEntry] = []
    changed: list[tuple[int, StoredRow, NewEntry]] = []
    moved: list[tuple[int, NewEntry]] = []
    for identity, one in fresh.items():
        found = there.get(identity)
        if found is None:
            new.append(one)
        elif found[1][:CONTENT_COLUMNS] != one[0][:CONTENT_COLUMNS]:
            changed.append((*found, one))
        elif found[1] != one[0]:
            moved.append((found[0], one))
    _insert(connection, rows, new, delta)
    _change(connection, changed, delta)
    if any(_rest(there[row[ID]][1]) != _rest(row) for _, (row, _, _) in moved):
        mark_unscrubbed(connection)
    connection.executemany(_UPDATE, ((*row, key) for key, (row, _, _) in moved))
    delta.put((key for key, _ in moved), (one for _, one in moved))
    return len(new) + len(changed), len(fresh) - len(new) - len(changed)


def _rest(row: StoredRow) -> str:
    rest: str = decode_position(row[POSITION])[2]
    return rest


def _insert(connection: sqlite3.Connection, rows: Rows, new: list[NewEntry], delta: Delta) -> None:
    keys = rows.new_keys(len(new))
    connection.executemany(_INSERT, ((*row, key) for key, (row, _, _) in zip(keys, new, strict=True)))
    _index(connection, keys, new, delta)
    delta.put(keys, new)


def _change(connection: sqlite3.Connection, changed: list[tuple[int, StoredRow, NewEntry]], delta: Delta) -> None:
    keys, new = [key for key, _, _ in changed], [one for _, _, one in changed]
    _unindex(connection, [(key, row) for key, row, _ in changed])
    connection.executemany(_UPDATE, ((*row, key) for key, (row, _, _) in zip(keys, new, strict=True)))
    _index(connection, keys, new, delta)
    delta.put(keys, new)
    stale = [key for key, before, (after, _, _) in changed if before[HASH] != after[HASH]]
    unembed(connection, stale)
    delta.unembedded += stale


def _remove(connection: sqlite3.Connection, gone: list[tuple[int, StoredRow]], delta: Delta) -> None:
    _unindex(connection, gone)
    keys = [key for key, _ in gone]
    connection.executemany("DELETE FROM entries WHERE key = ?", ((key,) for key in keys))
    unembed(connection, keys)
    delta.removed += keys


def unembed(connection: sqlite3.Connection, keys: list[int]) -> None:
    """Delete the vectors and the token bits of these entries."""
    connection.executemany("DELETE FROM vectors WHERE key = ?", ((key,) for key in keys))
    connection.executemany("DELETE FROM tokens WHERE key = ?", ((key,) for key in keys))


def _index(connection: sqlite3.Connection, keys: list[int], fresh: list[NewEntry], delta: Delta) -> None:
    """Index the content of `entries` at these keys."""
    if not keys:
        return
    which, values = _key_condition(keys)
    connection.execute(f"{_INDEX} {which}", values)
    contents = [(key, content) for key, (_, content, _) in zip(keys, fresh, strict=True)]
    tags = sorted((tag, key) for key, one in contents for tag in set(one.tags))
    connection.executemany("INSERT INTO tags (tag, key) VALUES (?, ?)", tags)
    others = sorted((source, key) for key, one in contents for source in set(one.other_sources))
    connection.executemany("INSERT INTO other_sources (source, key) VALUES (?, ?)", others)
    delta.sizes += connection.execute(f"SELECT id, sz FROM words_docsize WHERE id {which}", values)  # noqa: S608
    delta.written += [(key, row[TEXT], row[ABOUT]) for key, (row, _, _) in zip(keys, fresh, strict=True)]


def _key_condition(keys: list[int]) -> tuple[str, tuple[int | str, ...]]:
    """Return an SQL condition for one of these keys, and its values."""
    if keys == list(range(keys[0], keys[0] + len(keys))):
        return "BETWEEN ? AND ?", (keys[0], keys[-1])
    return _LISTED, (json_list(keys),)


def _unindex(connection: sqlite3.Connection, rows: list[tuple[int, StoredRow]]) -> None:
    if rows:
        mark_unscrubbed(connection)
    connection.executemany(_UNINDEX, ((key, row[TEXT], row[ABOUT]) for key, row in rows))
    contents = [(key, decode_content(row[CONTENT])) for key, row in rows]
    tags = ((tag, key) for key, one in contents for tag in set(one.tags))
    connection.executemany("DELETE FROM tags WHERE tag = ? AND key = ?", tags)
    others = ((source, key) for key, one in contents for source in set(one.other_sources))
    connection.executemany("DELETE FROM other_sources WHERE source = ? AND key = ?", others)


def json_list(values: Sequence[str] | Sequence[int]) -> str:
    """Return values as a parameter of `json_each`."""
    return msgspec.json.encode(values).decode()
