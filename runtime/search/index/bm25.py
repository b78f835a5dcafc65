"""BM25 over an entry's text, what it is about (its author and date) and its context, the texts before and after it.

It gives what FTS5's own `bm25()` would give over a table with these three columns, without walking such a table: a word
stands in an entry's context as often as it stands in its neighbours' texts. Where one agent or one user is asked for,
their entries alone say how rare a word is and how long entries are, so nobody else's memories change the order, and no
score tells what words they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from runtime.search.index.rows import Rows

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


def scores(words: Sequence[Postings], rows: Rows, scope: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The score of every entry in the scope, by key up to `rows.end`; 0 where none of the words stands."""
    end = rows.end
    total = np.zeros(end, np.float32)
    entries = int(np.count_nonzero(scope))
    if not entries:
        return total
    size = rows.size()
    average = max(float(size @ scope) / entries, 1.0)
    for word in words:
        counts = _counts(word, rows, np.zeros(end, np.float32))
        keys = np.flatnonzero(counts)
        keys = keys[scope[keys]]
        counted = counts[keys]
        normed = K1 * (1 - B + (B / average) * size[keys])
        total[keys] += rarity(entries, len(keys)) * (K1 + 1) * counted / (counted + normed)
    return total


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
