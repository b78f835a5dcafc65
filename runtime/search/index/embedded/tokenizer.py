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
"""Consecutive words, each in one of its `spellings`."""

WrittenEntry = tuple[int, str, str]
"""The key of an entry, its text and its metadata."""

_KEPT_WORDS = 10_000
_KEPT_NUMBERS = 8_000_000  # 64 MB of postings
_KEPT_CHANGES = 256  # entries
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

    def word_weights(self, weights: Sequence[float], words: Sequence[str]) -> dict[str, float]:
        """Return the weight of each of these words that has a phrase; `weights`: of `phrases(words)`, in order."""
        of_phrases = dict(zip(self.phrases(words), weights, strict=True))
        phrases = {word: self._known.get(word[:_LONGEST_WORD], ()) for word in words}
        return {word: of_phrases[phrase] for word, phrase in phrases.items() if phrase in of_phrases}

    def _learn(self, words: Sequence[str]) -> None:
        self._known.update(zip(words, self.split(words), strict=True))

    def split(self, texts: Sequence[str]) -> list[Phrase]:
        """Return the words of each text, in order, in the first of their spellings."""
        rows = [(number, text.encode(errors="replace").decode()) for number, text in enumerate(texts, 1)]
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", rows)
        read: list[list[str]] = [[] for _ in texts]
        for number, term in self._connection.execute("SELECT doc, term FROM occurrences ORDER BY doc, offset"):
            read[number - 1].append(spellings(term)[0])
        self._connection.execute("ROLLBACK")
        return list(map(tuple, read))

    def close(self) -> None:
        """Close the table."""
        self._connection.close()


def spellings(stem: str) -> tuple[str, ...]:
    """Return the spellings of a stem in an index. A `y` after a vowel at the end of a word is `i` in its stem, unless
    an ending was cut off: `deploy` has the stem `deploi`, and `deployment` has `deploy`."""
    if stem[-1:] in ("i", "y") and stem[-2:-1] in ("a", "e", "o", "u"):
        return f"{stem[:-1]}y", f"{stem[:-1]}i"
    return (stem,)


class Occurrences:
    """The occurrences of words in the index. The latest ones are cached. After a write of few entries a cached word is
    corrected when it is needed again: to read a common word takes a hundred times as long."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._kept: OrderedDict[Phrase, tuple[Postings, int]] = OrderedDict()  # with how many changes they have
        self._numbers = 0
        self._changes: list[WrittenEntry] = []
        self._words: dict[str, Phrase] = {}

    def change(self, removed: Sequence[int], written: Sequence[WrittenEntry]) -> None:
        """Note the entries that a write removed and wrote."""
        if len(self._changes) + len(removed) + len(written) > _KEPT_CHANGES:
            self._kept.clear()
            self._changes.clear()
            self._words.clear()
            self._numbers = 0
        else:
            self._changes += [(key, "", "") for key in removed]
            self._changes += written

    def postings(self, phrase: Phrase, connection: sqlite3.Connection) -> Postings:
        """Return the occurrences of these consecutive words."""
        if phrase in self._kept:
            found, known = self._kept.pop(phrase)
            self._numbers -= found.weight
            found = self._corrected_postings(found, phrase, self._changes[known:])
        else:
            found = _word_postings(phrase[0], connection) if len(phrase) == 1 else _phrase_postings(phrase, connection)
        self._kept[phrase] = found, len(self._changes)
        self._numbers += found.weight
        while self._numbers > _KEPT_NUMBERS and len(self._kept) > 1:
            _, (oldest, _) = self._kept.popitem(last=False)
            self._numbers -= oldest.weight
        return found

    def _corrected_postings(self, found: Postings, phrase: Phrase, changes: Sequence[WrittenEntry]) -> Postings:
        if not changes:
            return found
        latest = {key: (text, about) for key, text, about in changes}
        keys = np.array(sorted(latest), np.int64)
        unknown = sorted({each for pair in latest.values() for each in pair} - self._words.keys())
        self._words.update(zip(unknown, self._tokenizer.split(unknown), strict=True))
        text, about = (
            np.array([_count(phrase, self._words[latest[key][column]]) for key in keys.tolist()], np.float32)
            for column in (0, 1)
        )
        return Postings(
            *_replace_counts(found.text, found.text_counts, keys, text),
            *_replace_counts(found.about, found.about_counts, keys, about),
        )


def _count(phrase: Phrase, words: Phrase) -> int:
    """Return the number of times that the phrase occurs in these words."""
    if len(phrase) == 1:
        return words.count(phrase[0])
    return sum(words[at : at + len(phrase)] == phrase for at in range(len(words) - len(phrase) + 1))


def _replace_counts(
    keys: NDArray[np.int64], counts: NDArray[np.float32], changed: NDArray[np.int64], new: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return ascending keys and their counts with other counts for the changed keys, which are ascending too; a key
    with the count 0 is left out."""
    at = np.searchsorted(keys, changed)
    old = at[np.isin(changed, keys[at[at < len(keys)]])]
    keys, counts = np.delete(keys, old), np.delete(counts, old)
    changed, new = changed[new > 0], new[new > 0]
    at = np.searchsorted(keys, changed)
    return np.insert(keys, at, changed), np.insert(counts, at, new)


def _word_postings(term: str, connection: sqlite3.Connection) -> Postings:
    # Keys are joined in SQLite and parsed by numpy: several times faster than one row per key in Python.
    sql = "SELECT group_concat(iif(col = 'text', doc, -doc)) FROM occurrences WHERE term IN (?, ?)"
    places = keys_of(connection.execute(sql, _spelling_pair(term)).fetchone()[0])
    return _postings_of(places[places > 0], -places[places < 0])


def _phrase_postings(phrase: Phrase, connection: sqlite3.Connection) -> Postings:
    """Return the occurrences of consecutive words. Positions are numbers with the key in the high bits and the word's
    number in its text in the low ones: consecutive words have consecutive positions."""
    sql = (
        "SELECT group_concat(iif(col = 'text', doc, -doc)), group_concat(offset) FROM occurrences WHERE term IN (?, ?)"
    )
    texts = abouts = np.zeros(0, np.int64)
    for number, term in enumerate(phrase):
        keys, offsets = (keys_of(column) for column in connection.execute(sql, _spelling_pair(term)).fetchone())
        starts = (np.abs(keys) << _PLACE) + offsets - number
        text, about = starts[keys > 0], starts[keys < 0]
        texts = np.intersect1d(texts, text, assume_unique=True) if number else text
        abouts = np.intersect1d(abouts, about, assume_unique=True) if number else about
        if not len(texts) and not len(abouts):
            break
    return _postings_of(texts >> _PLACE, abouts >> _PLACE)


def _spelling_pair(term: str) -> tuple[str, str]:
    found = spellings(term)
    return found[0], found[-1]


def _postings_of(text: NDArray[np.int64], about: NDArray[np.int64]) -> Postings:
    text, text_counts = np.unique(text, return_counts=True)
    about, about_counts = np.unique(about, return_counts=True)
    return Postings(text, text_counts.astype(np.float32), about, about_counts.astype(np.float32))


def keys_of(joined: str | None) -> NDArray[np.int64]:
    """Return the numbers that SQLite's `group_concat` joined; None: none."""
    return np.fromstring(joined, np.int64, sep=",") if joined else np.zeros(0, np.int64)
