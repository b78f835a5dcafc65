"""BM25 over an entry's text, what it is about (its author and date) and its context, the texts before and after it.

It gives what FTS5's own `bm25()` would give over a table with these three columns, without walking such a table: a word
stands in an entry's context as often as it stands in its neighbours' texts. Where one agent or one user is asked for,
their entries alone say how rare a word is and how long entries are, so nobody else's memories change the order, and no
score tells what words they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, log1p
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from runtime.search.index.embedded.columns import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1, B = 1.2, 0.75
"""As in FTS5 (sqlite.org/fts5.html, section 5.1.1)."""
TEXT, ABOUT, CONTEXT = 1.0, 1.0, 0.3
"""What an occurrence counts for in each column."""
_COMMON = 1e-6  # what a word that most entries hold is worth in FTS5


class Postings(NamedTuple):
    """Where a word stands: keys, each once, and how often there; in texts, and in what entries are about."""

    text: NDArray[np.int64]
    text_counts: NDArray[np.float32]
    about: NDArray[np.int64]
    about_counts: NDArray[np.float32]

    @property
    def weight(self) -> int:
        """Numbers in it."""
        return 2 * (len(self.text) + len(self.about)) + 1


class Sums:
    """The scores of entries, and their shares of a question's words, summed up word by word.

    A share is 0 to 1: how much of what the words weigh together the entry has. One that has each of them once, and is
    of average length, has it all. Unlike a score it says something by itself: what a word weighs here is above 0
    however few entries there are, and a word that stands nowhere weighs most.
    """

    def __init__(self, places: int, entries: int, size: float) -> None:
        """For so many places, of an index that has so many `entries`, with so many words in all of them."""
        self.scores = np.zeros(places, np.float32)
        self._had = np.zeros(places, np.float32)
        self._whole = 0.0
        self._entries = entries
        self._average = max(size / entries, 1.0) if entries else 1.0

    def add(self, at: NDArray[np.int64], counted: NDArray[np.float32], size: NDArray[Any]) -> None:
        """A word stands `counted` times in the entries at these places, which have `size` words."""
        normed = K1 * (1 - B + (B / self._average) * size)
        often = (K1 + 1) * counted / (counted + normed)
        self.scores[at] += rarity(self._entries, len(at)) * often
        weight = log1p((self._entries - len(at) + 0.5) / (len(at) + 0.5))
        self._had[at] += weight * np.minimum(often, 1)
        self._whole += weight

    @property
    def shares(self) -> NDArray[np.float32]:
        """Of all words that were added, at each place."""
        return self._had / np.float32(self._whole or 1)


def scores(words: Sequence[Postings], rows: Rows, scope: NDArray[np.bool_]) -> Sums:
    """The scores and shares of every entry in the scope, by key up to `rows.end`; 0 where none of the words stands."""
    end, size = rows.end, rows.size()
    sums = Sums(end, int(np.count_nonzero(scope)), float(size @ scope))
    for word in words:
        counts = _counts(word, rows, np.zeros(end, np.float32))
        keys = np.flatnonzero(counts)
        keys = keys[scope[keys]]
        sums.add(keys, counts[keys], size[keys])
    return sums


def _counts(word: Postings, rows: Rows, counts: NDArray[np.float32]) -> NDArray[np.float32]:
    """How often the word stands in each entry, weighed by column. An entry is the neighbour of one on each side, so in
    none of these additions a key comes twice, but 0, which is nobody's."""
    counts[word.text] = TEXT * word.text_counts
    counts[word.about] += ABOUT * word.about_counts
    context = CONTEXT * word.text_counts
    counts[rows.before[word.text]] += context
    counts[rows.after[word.text]] += context
    counts[0] = 0
    return counts


def rarity(entries: int, holding: int) -> float:
    """What a word weighs that so many of the entries hold."""
    weight = log((entries - holding + 0.5) / (holding + 0.5))
    return weight if weight > 0 else _COMMON
