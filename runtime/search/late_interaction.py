"""Similarity of a question and texts token by token: each token of the question is compared with every token of a text.

"MaxSim" of ColBERT (Khattab and Zaharia, 2020, arxiv.org/abs/2004.12832): a token of the question counts with its best
match in the text. Of the texts only the signs of the tokens' vectors are known, one bit for each number; the question's
vectors are whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from runtime.search.embedding.embedder import EmbeddedQuestion
from runtime.search.stop_words import STOP_WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

STOP_WORD: Final = 1.5
"""The weight of a token of a stop word, but at most half of that of the rarest word. They count, because tokens carry
what is around them; how often they occur says nothing. The weight of another word that occurs in one of a hundred texts
is 4.6, but in a small memory every word is in many."""
_AT_ONCE: Final = 32
"""Number of tokens in a product of matrices: too few for the library to use several threads, which would wait for the
processors of other work."""
_WORD = re.compile(r"[^\W_]+")


class QuestionTokens(NamedTuple):
    """The tokens of a question: a float32 row of length 1 for each, and their weights, which add up to 1."""

    rows: NDArray[np.float32]
    weights: NDArray[np.float32]


def question_tokens(asked: EmbeddedQuestion, text: str, weights: Mapping[str, float]) -> QuestionTokens | None:
    """Return the tokens of the embedded `text`; None if there are none. `weights`: of its words, see
    `WordMatches.weights`; those of unknown words are the highest of them."""
    if asked.tokens is None or not len(asked.tokens):
        return None
    words = {at: word.group().lower() for word in _WORD.finditer(text) for at in range(*word.span())}
    unknown = max(weights.values(), default=1.0)
    stop_word = min(STOP_WORD, unknown / 2)
    of_tokens = [
        stop_word if (word := words.get(start, "")) in STOP_WORDS else weights.get(word, unknown)
        for start, _ in asked.places
    ]
    weighed = np.array(of_tokens, np.float32)
    return QuestionTokens(asked.tokens, weighed / weighed.sum())


def best_matches(question: QuestionTokens, texts: Sequence[bytes | None]) -> NDArray[np.float32]:
    """Return one row for each text, given as `Index.tokens` returns it: for each token of the question the cosine of
    its best match, about -1 to 1; -1 for a text without tokens."""
    dimension = question.rows.shape[1]
    row = dimension // 8
    # An index that was changed by hand may have any length.
    given = [text if text and len(text) % row == 0 else b"" for text in texts]
    sizes = np.array([len(text) // row for text in given], np.int64)
    matches = np.full((len(texts), len(question.rows)), -1, np.float32)
    there, count = np.flatnonzero(sizes), int(sizes.sum())
    if not count:
        return matches
    packed = np.frombuffer(b"".join((*given, bytes(-count % _AT_ONCE * row))), np.uint8)
    bits = np.unpackbits(packed.reshape(-1, _AT_ONCE, row), axis=2).astype(np.float32)
    # Products with bits 0 and 1 instead of signs save a pass over the largest array: a sign is twice the bit minus 1.
    products = (bits @ np.ascontiguousarray(question.rows.T)).reshape(-1, len(question.rows))[:count]
    cosines = (2 * products - question.rows.sum(axis=1)) / np.float32(np.sqrt(dimension))
    starts = np.concatenate(([0], np.cumsum(sizes[there])[:-1]))
    matches[there] = np.maximum.reduceat(cosines, starts, axis=0)
    return matches
