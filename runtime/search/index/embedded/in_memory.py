"""An open file and the part of it that is searched in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.index.embedded.bm25 import scores
from runtime.search.index.embedded.columns import QUESTION_MARKS, Rows
from runtime.search.index.embedded.errors import DamagedIndex
from runtime.search.index.embedded.index_file import IndexFile
from runtime.search.index.embedded.matrix import Matrix, best, unit
from runtime.search.index.embedded.schema import COLUMNS, decode_content, decode_position, entry_of, microseconds
from runtime.search.index.embedded.sign_bits import CHOSEN, SignBits
from runtime.search.index.embedded.sqlcipher import ERRORS
from runtime.search.index.embedded.token_bits import TokenBits
from runtime.search.index.embedded.tokenizer import Occurrences, Tokenizer, keys_of
from runtime.search.index.embedded.writes import Delta, json_list
from runtime.search.index.index import WHOLE_ID, IndexStats, Neighbours, PendingEntry, ScoredEntries, WordMatches

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGE = 300_000
"""Number of entries above which only the signs of vectors are in memory. Fewer vectors are multiplied as fast as the
chosen ones are read from a sealed file; those of 384 numbers take up to 460 MB."""
_CHUNK = 10_000
_TAGS = 16
"""Number of tags whose entries are kept in memory."""
_RETAGGED = 256
"""Number of entries of one write above which the entries of tags are read again."""
_ASKS = " OR ".join(f"instr(text, '{mark}')" for mark in QUESTION_MARKS)
_VECTORS = "SELECT key, vector FROM vectors ORDER BY key"
_SOME_VECTORS = """SELECT key, vector FROM vectors
    WHERE key IN (SELECT value FROM json_each(?)) AND length(vector) = ? ORDER BY key"""
_ROWS = f"SELECT key, id, content, part, position, {_ASKS} FROM entries ORDER BY key"  # noqa: S608 - names of ours
_ENTRIES = f"""SELECT e.key, p.name, {", ".join(f"e.{name}" for name in COLUMNS)}
    FROM entries e JOIN parts p ON p.key = e.part WHERE e.key IN (SELECT value FROM json_each(?))"""  # noqa: S608


class IndexInMemory:
    """The searchable content of one file. Callers hold the lock that separates readers from the writer's last step,
    so file and memory agree. `model` is that of the vectors, `token_bits` the version of the token bits; None: there
    are none."""

    def __init__(self, file: IndexFile) -> None:
        self.file = file
        self.tokenizer = Tokenizer()
        self.load()

    def load(self) -> None:
        """Read everything into memory again. Raises DamagedIndex if the tables are inconsistent or of another
        version."""
        try:
            self._load()
        except ERRORS as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
                raise DamagedIndex(str(error)) from error
            raise

    def _load(self) -> None:
        self.rows = Rows()
        self.occurrences = Occurrences(self.tokenizer)
        self._of_tags: dict[str, NDArray[np.int64]] = {}
        connection = self.file.writing
        for chunk in _chunks(connection.execute(_ROWS)):
            keys, ids, contents, parts, positions, asking = zip(*chunk, strict=True)
            orders = [order for _, order, _ in map(decode_position, positions)]
            self.rows.put(
                keys, ids, list(map(decode_content, contents)), parts, orders, list(map(bool, asking)), link=False
            )
        self.rows.link_all_neighbours()
        counted = 0
        for sizes in _chunks(connection.execute("SELECT id, sz FROM words_docsize ORDER BY id")):
            self._check_alive([key for key, _ in sizes], "words")
            self._measure(sizes)
            counted += len(sizes)
        if counted != np.count_nonzero(self.rows.alive):
            raise DamagedIndex("there are entries whose words are not indexed")
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        self.model: str | None = meta.get("model")
        self.dimension: int | None = meta.get("dimension")
        self.matrix: Matrix | SignBits | None = None
        for chunk in _chunks(connection.execute(_VECTORS)):
            self._check_alive([key for key, _ in chunk], "vectors")
            self.embed(*self._vectors(chunk), self.model)
        self.token_bits: str | None = meta.get("token_bits")
        self._tokens = TokenBits()
        for chunk in _chunks(connection.execute("SELECT key FROM tokens ORDER BY key")):
            tokenized = [key for (key,) in chunk]
            self._check_alive(tokenized, "token bits")
            self.rows.tokenized[tokenized] = True

    def apply(self, delta: Delta) -> None:
        """Apply the changes of a transaction in memory."""
        delta.apply(self.rows)
        self._tokens.forget([*delta.removed, *delta.unembedded])
        self._retag(delta)
        self._measure(delta.sizes)
        self.occurrences.change(delta.removed, delta.written)

    def embed(self, keys: NDArray[np.int64], vectors: NDArray[np.float32], model: str | None) -> None:
        """Set the vectors of these entries."""
        if not len(keys):
            return
        self.model, self.dimension = model, vectors.shape[1]
        if self.matrix is None:
            kind = SignBits if self.rows.end > LARGE else Matrix
            self.matrix = kind(self.dimension, len(self.rows.alive))
        elif isinstance(self.matrix, Matrix) and self.rows.end > LARGE:
            self.matrix = self._signs(self.matrix)
        self.matrix.put(keys, vectors)
        self.rows.embedded[keys] = True

    def put_tokens(self, keys: NDArray[np.int64], version: str) -> None:
        """Note that these entries have token bits of this version, and none has others."""
        if not len(keys):
            return
        if self.token_bits != version:
            self.forget_tokens()
            self.token_bits = version
        self.rows.tokenized[keys] = True
        self._tokens.forget(keys.tolist())

    def forget_vectors(self) -> None:
        """Remove all vectors, and all token bits."""
        self.model = self.dimension = self.matrix = None
        self.rows.embedded[:] = False
        self.forget_tokens()

    def forget_tokens(self) -> None:
        """Note that there are no token bits."""
        self.token_bits = None
        self.rows.tokenized[:] = False
        self._tokens = TokenBits()

    def has_other_vectors(self, model: str, dimension: int | None) -> bool:
        """True if the vectors are of another model, or of another dimension if that is given."""
        return self.model is not None and (self.model != model or dimension not in {None, self.dimension})

    def keyword(self, words: Sequence[str], wanted: EntryFilter, limit: int) -> WordMatches:
        """See `Index.keyword`."""
        rows = self.rows
        phrases = self.tokenizer.phrases(words)
        places = [self.occurrences.postings(phrase, self.file.reading) for phrase in phrases]
        sums = scores(places, rows, rows.filter_mask(EntryFilter(agent=wanted.agent, user=wanted.user)))
        keys = np.flatnonzero((sums.scores > 0) & self.filter_mask(wanted))
        keys, found = best(keys, sums.scores[keys], limit)
        weights = self.tokenizer.word_weights(sums.weights, words)
        return WordMatches(rows.handles(keys), found, sums.shares[keys], weights)

    def nearest(
        self, vector: NDArray[np.float32], wanted: EntryFilter, limit: int, also: NDArray[np.int64] | None = None
    ) -> ScoredEntries:
        """See `Index.nearest`."""
        query = unit(np.asarray(vector, np.float32)[None], self.dimension)[0]
        if self.matrix is None:
            return self._best(np.zeros(0, np.int64), np.zeros(0, np.float32), limit)
        mask = self.filter_mask(wanted) & self.rows.embedded[: self.rows.end]
        keys = np.flatnonzero(mask)
        if isinstance(self.matrix, SignBits):
            keys = self.matrix.nearest(query, keys, max(CHOSEN, 2 * limit))
            if also is not None:
                named = self.rows.keys(also)
                keys = np.union1d(keys, named[mask[named]])
            keys, vectors = self._vectors_in_file(keys)
            similarities = vectors @ query
        else:
            similarities = self.matrix.similarities(query, keys)
        nearest = self._best(keys, similarities, limit)
        if also is None or len(nearest.keys) == len(keys):
            return nearest
        more = np.isin(keys, self.rows.keys(np.setdiff1d(also, nearest.keys)))
        others = self._best(keys[more], similarities[more], len(also))
        return ScoredEntries(
            np.concatenate((nearest.keys, others.keys)), np.concatenate((nearest.scores, others.scores))
        )

    def tokens(self, handles: NDArray[np.int64], version: str | None) -> list[bytes | None]:
        """See `Index.tokens`; `version`: the one in use."""
        if version is None or version != self.token_bits:
            return [None] * len(handles)
        keys = self.rows.keys(np.asarray(handles, np.int64))
        return self._tokens.of(np.where(self.rows.tokenized[keys], keys, 0).tolist(), self.file.reading)

    def neighbours(self, handles: NDArray[np.int64]) -> Neighbours:
        """See `Index.neighbours`."""
        rows = self.rows
        keys = rows.keys(np.asarray(handles, np.int64))
        before, after = rows.handles(rows.before[keys]), rows.handles(rows.after[keys])
        author, time, asks, words = rows.author[keys] - 1, rows.time[keys], rows.asks[keys], rows.text_size[keys]
        return Neighbours(before, after, author, time, asks, words, rows.authors)

    def entries(self, handles: Sequence[int]) -> Mapping[int, IndexEntry]:
        """See `Index.entries`."""
        keys = self.rows.keys(np.array(handles, np.int64).reshape(-1)).tolist()
        found = self._entries(keys)
        return {handle: found[key] for handle, key in zip(handles, keys, strict=True) if key in found}

    def newest(
        self, wanted: EntryFilter, limit: int, before: tuple[datetime, str] | None, begins: str
    ) -> Sequence[IndexEntry]:
        """See `Index.newest`."""
        mask = self.filter_mask(wanted)
        if begins:
            mask &= self._prefix_mask(begins)
        keys = np.flatnonzero(mask)
        time = self.rows.time
        tied = np.zeros(0, np.int64)
        if before is not None:
            at = microseconds(before[0])
            keys, tied = keys[time[keys] < at], keys[time[keys] == at]
        if len(keys) > limit:
            # Ids are stored only in the file: they are read for entries that may be among the newest.
            keys = keys[time[keys] >= np.partition(time[keys], -limit)[-limit]]
        ids = self.ids([*keys.tolist(), *tied.tolist()])
        order = sorted(((int(time[key]), name, key) for key, name in ids.items()), reverse=True)
        if before is not None:
            order = [row for row in order if row[:2] < (at, before[1])]
        found = self._entries([key for _, _, key in order[:limit]])
        return [found[key] for _, _, key in order[:limit]]

    def authors(self, wanted: EntryFilter) -> list[str]:
        """See `Index.authors`."""
        counts = np.bincount(self.rows.author[: self.rows.end][self.filter_mask(wanted)], minlength=1)
        return sorted(self.rows.authors[number - 1] for number in np.flatnonzero(counts).tolist() if number)

    def pending(self, limit: int, version: str | None) -> list[PendingEntry]:
        """See `Index.pending`; `version`: of token bits, the one in use."""
        rows = self.rows
        alive, embedded = rows.alive[: rows.end], rows.embedded[: rows.end]
        keys: list[int] = rows.newest(alive & ~embedded, limit).tolist()
        if version is not None and len(keys) < limit:
            tokenized = rows.tokenized[: rows.end] & (self.token_bits == version)
            keys += rows.newest(alive & embedded & ~tokenized, limit - len(keys)).tolist()
        sql = "SELECT key, id, hash, text FROM entries WHERE key IN (SELECT value FROM json_each(?))"
        found = {key: PendingEntry(*rest) for key, *rest in self.file.reading.execute(sql, (json_list(keys),))}
        return [found[key] for key in keys]

    def parts(self, agent: str | None, names: Collection[str] | None) -> dict[str, str]:
        """See `Index.parts`."""
        sql = "SELECT name, revision FROM parts"
        if names is not None:
            sql += " WHERE name IN (SELECT value FROM json_each(?))"
            return dict(self.file.reading.execute(sql, (json_list(sorted(names)),)))
        if agent is None:
            return dict(self.file.reading.execute(sql))
        return dict(self.file.reading.execute(f"{sql} WHERE agent = ?", (agent,)))

    def stats(self, wanted: EntryFilter, version: str | None) -> IndexStats:
        """See `Index.stats`; `version`: of token bits, the one in use."""
        mask = self.filter_mask(wanted)
        embedded = int(np.count_nonzero(mask & self.rows.embedded[: self.rows.end]))
        tokenized = 0
        if version is not None and version == self.token_bits:
            tokenized = int(np.count_nonzero(mask & self.rows.tokenized[: self.rows.end]))
        model, dimension = (self.model, self.dimension) if embedded else (None, None)
        return IndexStats(int(np.count_nonzero(mask)), embedded, model, dimension, self.file.bytes(), tokenized)

    def filter_mask(self, wanted: EntryFilter) -> NDArray[np.bool_]:
        """Return the keys that pass."""
        mask = self.rows.filter_mask(wanted)
        if wanted.source is not None:
            others = self._key_mask("SELECT group_concat(key) FROM other_sources WHERE source = ?", wanted.source)
            mask &= (self.rows.source[: self.rows.end] == hash(wanted.source)) | others
        if wanted.tags_any:
            mask &= np.logical_or.reduce([self._tag_mask(tag) for tag in wanted.tags_any])
        for tag in wanted.tags_all:
            mask &= self._tag_mask(tag)
        return mask

    def close(self) -> None:
        """Close the file."""
        self.tokenizer.close()
        self.file.close()

    def _vectors(self, rows: Sequence[tuple[int, bytes]]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the keys and vectors of these rows of the file."""
        if not self.dimension or any(len(vector) != 4 * self.dimension for _, vector in rows):
            raise DamagedIndex("there are vectors of another dimension")
        vectors = np.frombuffer(b"".join([vector for _, vector in rows]), np.float32)
        return np.array([key for key, _ in rows], np.int64), vectors.reshape(-1, self.dimension)

    def _vectors_in_file(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return these keys, ascending, and their vectors in the file; without those that another process has deleted
        or replaced by vectors of another dimension since."""
        assert self.dimension is not None
        given = json_list(keys.tolist()), 4 * self.dimension
        return self._vectors(self.file.reading.execute(_SOME_VECTORS, given).fetchall())

    def _signs(self, matrix: Matrix) -> SignBits:
        """Return the signs of these vectors."""
        signs = SignBits(matrix.dimension, len(self.rows.alive))
        keys = np.flatnonzero(self.rows.embedded)
        for begin in range(0, len(keys), _CHUNK):
            some = keys[begin : begin + _CHUNK]
            signs.put(some, matrix.rows(some))
        return signs

    def _entries(self, keys: Sequence[int]) -> dict[int, IndexEntry]:
        rows = self.file.reading.execute(_ENTRIES, (json_list(keys),))
        return {key: entry_of(row, part) for key, part, *row in rows}

    def ids(self, keys: Sequence[int]) -> dict[int, str]:
        """Return the ids of the entries under these keys."""
        sql = "SELECT key, id FROM entries WHERE key IN (SELECT value FROM json_each(?))"
        return dict(self.file.reading.execute(sql, (json_list(keys),)))

    def _prefix_mask(self, begins: str) -> NDArray[np.bool_]:
        """Return the keys whose id begins with this text."""
        if len(begins) == WHOLE_ID:
            mask = np.zeros(self.rows.end, np.bool_)
            mask[self.rows.of_ids([begins])] = True
            return mask
        return self._key_mask("SELECT group_concat(key) FROM entries WHERE substr(id, 1, ?) = ?", len(begins), begins)

    def _tag_mask(self, tag: str) -> NDArray[np.bool_]:
        # A search asks several times.
        if tag not in self._of_tags:
            if len(self._of_tags) >= _TAGS:
                del self._of_tags[next(iter(self._of_tags))]
            mask = self._key_mask("SELECT group_concat(key) FROM tags WHERE tag = ?", tag)
            self._of_tags[tag] = np.flatnonzero(mask)
        mask = np.zeros(self.rows.end, np.bool_)
        mask[self._of_tags[tag]] = True
        return mask

    def _retag(self, delta: Delta) -> None:
        """Correct the entries of tags after few changes; after many they are read again."""
        touched = np.array([*delta.removed, *delta.keys], np.int64)
        if len(touched) > _RETAGGED:
            self._of_tags.clear()
        for tag, keys in self._of_tags.items():
            now = [key for key, (_, content, _) in zip(delta.keys, delta.fresh, strict=True) if tag in content.tags]
            self._of_tags[tag] = np.union1d(keys[~np.isin(keys, touched)], np.array(now, np.int64))

    def _key_mask(self, sql: str, *values: str | int) -> NDArray[np.bool_]:
        """Return the keys in one list of the file."""
        mask = np.zeros(self.rows.end, np.bool_)
        mask[keys_of(self.file.reading.execute(sql, values).fetchone()[0])] = True
        return mask

    def _best(self, keys: NDArray[np.int64], found: NDArray[np.float32], limit: int) -> ScoredEntries:
        keys, found = best(keys, found, limit)
        return ScoredEntries(self.rows.handles(keys), found)

    def _measure(self, sizes: Sequence[tuple[Any, ...]]) -> None:
        if sizes:
            keys, counts = zip(*sizes, strict=True)
            self.rows.measure(keys, *_word_counts(counts))

    def _check_alive(self, keys: list[int], what: str) -> None:
        if keys[0] < 1 or keys[-1] >= self.rows.end or not self.rows.alive[keys].all():
            raise DamagedIndex(f"there are {what} without an entry")


def _word_counts(sizes: Sequence[bytes]) -> tuple[Sequence[int], Sequence[int]]:
    """Return the numbers of words in both columns of entries, as FTS5 stores them: SQLite's variable-length
    integers."""
    joined = b"".join(sizes)
    if len(joined) == 2 * len(sizes) and joined.isascii():
        return joined[::2], joined[1::2]
    texts, abouts = zip(*map(_integers, sizes), strict=True)
    return texts, abouts


def _integers(size: bytes) -> list[int]:
    read, number = [], 0
    for byte in size:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            read.append(number)
            number = 0
    if len(read) != 2:
        raise DamagedIndex("a count of words cannot be read")
    return read


def _chunks(cursor: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
    while chunk := cursor.fetchmany(_CHUNK):
        yield chunk
