"""BM25 over an entry's text, its metadata (author and date) and its context, the texts before and after it.

It equals FTS5's `bm25()` over a table with these three columns, without reading such a table: a word occurs in an
entry's context as often as in its neighbours' texts, or less if one of the texts is long (`dependence`). For one agent
or one user, only their entries determine how rare a word is and how long entries are. So other users' memories never
change the order, and scores reveal none of their words.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, log1p
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from runtime.search.dependence import dependence
from runtime.search.index.embedded.columns import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1, B = 1.2, 0.75
"""As in FTS5 (sqlite.org/fts5.html, section 5.1.1)."""
TEXT, ABOUT, CONTEXT = 1.0, 1.0, 0.3
"""The weight of an occurrence in each column."""
_COMMON = 1e-6  # the weight in FTS5 of a word that most entries contain


class Postings(NamedTuple):
    """The occurrences of a word: keys, each once, with the counts in the text and in the metadata."""

    text: NDArray[np.int64]
    text_counts: NDArray[np.float32]
    about: NDArray[np.int64]
    about_counts: NDArray[np.float32]

    @property
    def weight(self) -> int:
        """Number of values, for the size of the cache."""
        return 2 * (len(self.text) + len(self.about)) + 1


class Sums:
    """The scores of entries, and their shares of a question's words, summed up word by word.

    A share is 0 to 1: how much of the words' total weight the entry has. An entry of average length with each word once
    has all of it. It is meaningful by itself, unlike a score: here a word's weight is above 0 however few entries there
    are, and a word that occurs nowhere has the greatest.
    """

    def __init__(self, places: int, entries: int, size: float) -> None:
        """`places`: how many; the index has so many `entries`, with so many words in all of them."""
        self.scores = np.zeros(places, np.float32)
        self.weights: list[float] = []
        """The weight of each added word by which the shares are weighted."""
        self._had = np.zeros(places, np.float32)
        self._entries = entries
        self._average = max(size / entries, 1.0) if entries else 1.0

    def add(self, at: NDArray[np.int64], counted: NDArray[np.float32], size: NDArray[Any]) -> None:
        """Add a word that occurs `counted` times in the entries at these places, which have `size` words."""
        normed = K1 * (1 - B + (B / self._average) * size)
        often = (K1 + 1) * counted / (counted + normed)
        self.scores[at] += rarity(self._entries, len(at)) * often
        weight = log1p((self._entries - len(at) + 0.5) / (len(at) + 0.5))
        self._had[at] += weight * np.minimum(often, 1)
        self.weights.append(weight)

    @property
    def shares(self) -> NDArray[np.float32]:
        """Return the share of all added words at each place."""
        return self._had / np.float32(sum(self.weights) or 1)


def scores(words: Sequence[Postings], rows: Rows, scope: NDArray[np.bool_]) -> Sums:
    """Return the scores and shares of every entry in the scope, by key up to `rows.end`; 0 without any of the words."""
    end, size = rows.end, rows.size()
    sums = Sums(end, int(np.count_nonzero(scope)), float(size @ scope))
    depends = dependence(rows.text_size[:end]).astype(np.float32)
    for word in words:
        counts = _counts(word, rows, depends, np.zeros(end, np.float32))
        keys = np.flatnonzero(counts)
        keys = keys[scope[keys]]
        sums.add(keys, counts[keys], size[keys])
    return sums


def _counts(
    word: Postings, rows: Rows, depends: NDArray[np.float32], counts: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the occurrences of the word in each entry, weighted by column. An entry is the neighbour of one on each
    side, so no key occurs twice in one of these additions, except 0, which is no entry."""
    counts[word.text] = TEXT * word.text_counts
    counts[word.about] += ABOUT * word.about_counts
    context = CONTEXT * word.text_counts * depends[word.text]
    for neighbours in (rows.before[word.text], rows.after[word.text]):
        counts[neighbours] += context * depends[neighbours]
    counts[0] = 0
    return counts


def rarity(entries: int, holding: int) -> float:
    """Return the weight of a word that occurs in so many of the entries."""
    weight = log((entries - holding + 0.5) / (holding + 0.5))
    return weight if weight > 0 else _COMMON
