"""Splits text into words by the same rules as the index, and finds their occurrences in the index."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from runtime.search.index.embedded.bm25 import Postings
from runtime.search.index.embedded.schema import TOKENIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

Phrase = tuple[str, ...]
"""Consecutive words, in the spelling of the index."""

_KEPT_WORDS = 10_000
_KEPT_NUMBERS = 8_000_000  # 64 MB of postings
_LONGEST_WORD = 1_000  # characters
_PLACE = 24  # bits of a word's position in a text, which has fewer than 2^21 words


class Tokenizer:
    """Splits words as the index splits texts, with SQLite's own tokenizer in a table of its own. One thread uses it."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute(f"CREATE VIRTUAL TABLE words USING fts5 (word, content='', tokenize='{TOKENIZE}')")
        self._connection.execute("CREATE VIRTUAL TABLE occurrences USING fts5vocab ('words', 'instance')")
        self._known: OrderedDict[str, Phrase] = OrderedDict()

    def phrases(self, words: Sequence[str]) -> list[Phrase]:
        """Return the words of each text, in order and each text once; one without a letter or digit is left out."""
        words = [word[:_LONGEST_WORD] for word in words]
        unknown = list(dict.fromkeys(word for word in words if word not in self._known))
        if unknown:
            self._learn(unknown)
        found = dict.fromkeys(self._known[word] for word in words)
        while len(self._known) > _KEPT_WORDS:
            self._known.popitem(last=False)
        return [phrase for phrase in found if phrase]

    def _learn(self, words: Sequence[str]) -> None:
        texts = [(number, word.encode(errors="replace").decode()) for number, word in enumerate(words, 1)]
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", texts)
        read: list[list[str]] = [[] for _ in words]
        for number, term in self._connection.execute("SELECT doc, term FROM occurrences ORDER BY doc, offset"):
            read[number - 1].append(term)
        self._connection.execute("ROLLBACK")
        self._known.update(zip(words, map(tuple, read), strict=True))

    def close(self) -> None:
        """Close the table."""
        self._connection.close()


class Occurrences:
    """The occurrences of words in the index; the latest ones are cached until the next write."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Phrase, Postings] = OrderedDict()
        self._numbers = 0

    def forget(self) -> None:
        """Clear the cache."""
        self._kept.clear()
        self._numbers = 0

    def postings(self, phrase: Phrase, connection: sqlite3.Connection) -> Postings:
        """Return the occurrences of these consecutive words."""
        found = self._kept.get(phrase)
        if found is None:
            found = self._kept[phrase] = (
                _single(phrase[0], connection) if len(phrase) == 1 else _row(phrase, connection)
            )
            self._numbers += found.weight
        self._kept.move_to_end(phrase)
        while self._numbers > _KEPT_NUMBERS and len(self._kept) > 1:
            self._numbers -= self._kept.popitem(last=False)[1].weight
        return found


def _single(term: str, connection: sqlite3.Connection) -> Postings:
    # Keys are joined in SQLite and parsed by numpy: several times faster than one row per key in Python.
    sql = "SELECT group_concat(iif(col = 'text', doc, -doc)) FROM occurrences WHERE term = ?"
    places = keys_of(connection.execute(sql, (term,)).fetchone()[0])
    return _counted(places[places > 0], -places[places < 0])


def _row(phrase: Phrase, connection: sqlite3.Connection) -> Postings:
    """Return positions as numbers, with the key in the high bits and the word's number in its text in the low ones:
    consecutive words have consecutive positions."""
    sql = "SELECT group_concat(iif(col = 'text', doc, -doc)), group_concat(offset) FROM occurrences WHERE term = ?"
    texts = abouts = np.zeros(0, np.int64)
    for number, term in enumerate(phrase):
        keys, offsets = (keys_of(column) for column in connection.execute(sql, (term,)).fetchone())
        starts = (np.abs(keys) << _PLACE) + offsets - number
        text, about = starts[keys > 0], starts[keys < 0]
        texts = np.intersect1d(texts, text, assume_unique=True) if number else text
        abouts = np.intersect1d(abouts, about, assume_unique=True) if number else about
        if not len(texts) and not len(abouts):
            break
    return _counted(texts >> _PLACE, abouts >> _PLACE)


def _counted(text: NDArray[np.int64], about: NDArray[np.int64]) -> Postings:
    text, text_counts = np.unique(text, return_counts=True)
    about, about_counts = np.unique(about, return_counts=True)
    return Postings(text, text_counts.astype(np.float32), about, about_counts.astype(np.float32))


def keys_of(joined: str | None) -> NDArray[np.int64]:
    """Return the numbers that SQLite's `group_concat` joined; None: none."""
    return np.fromstring(joined, np.int64, sep=",") if joined else np.zeros(0, np.int64)
