"""Summaries without a model: the items' own sentences, oldest first (the fifth design, M9, "Extractive Fallback").

The result is one paragraph, as in the design's algorithm, with some changes that prevent false statements: sentences
are split where they end and not at every `.`, `!` and `?`, they keep these marks, and a repeated sentence is left out
only if its neighbours stay true without it (see `_sentences_without_overlap`). From the outline's heuristic it takes
the length of a sentence: 180 characters. A longer one is cut at the end of a word, marked by `…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from runtime.memory.chunking import statements

LONGEST_LINE: Final = 180
"""Maximum characters of a sentence in a summary."""
MOST_REPEATED: Final = 100
"""Maximum number of sentences that a chunk repeats from the previous one."""
CUT: Final = "…"
"""The mark of a cut."""

# `- 5 degrees` may also be a negative number.
_BULLET: Final = re.compile(r"\A(?:[-*+•‣] |[・●○] ?|#{1,6} )(?!\d)")
_END_MARK: Final = re.compile(r"[.!?…:;。！？｡．؟۔।॥։።፧][\"'”’»)\]*_」』）》〉]*\Z")


def extract(texts: Iterable[str], max_words: int) -> str:
    """Return the first sentences of `texts`, which are in the order of time, `max_words` words at most.

    It ends before the first sentence that does not fit; of the very first one, as much as fits is used. Deterministic.
    Empty if there is no sentence.
    """
    kept: list[str] = []
    room = max_words
    for sentence in _sentences_without_overlap(texts):
        words = _shorten(sentence).split()
        if len(words) > room:
            if not kept:
                kept.append(" ".join(words[:room]) + CUT)
            break
        kept.append(" ".join(words))
        room -= len(words)
    return _join_sentences(kept)


def _sentences_without_overlap(texts: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of all texts, without repeated texts, and without the beginning of a text that repeats the
    end of the previous one, as chunks do. Other repetitions stay: `Is B done? Yes.` may follow `Is A done? Yes.`."""
    said: set[str] = set()
    before: list[str] = []
    for text in texts:
        sentences = list(_sentences(text))
        again = [_comparison_key(sentence) for sentence in sentences]
        new = _overlap(before, again)
        if not said.issuperset(again[new:]):
            yield from sentences[new:]
        said.update(again)
        before = again


def _sentences(text: str) -> Iterator[str]:
    for part in statements(text):
        # White space is normalized: a sentence over two lines is one sentence, wherever its lines break.
        sentence = _BULLET.sub("", " ".join(part.split()))
        if any(map(str.isalnum, sentence)):
            yield sentence


def _comparison_key(sentence: str) -> str:
    """Return a key that is equal for sentences with the same meaning: a question differs from its answer."""
    return sentence.rstrip(".!")


def _overlap(before: list[str], after: list[str]) -> int:
    """Return the number of last sentences of `before` that `after` begins with."""
    for count in range(min(len(before), len(after), MOST_REPEATED), 0, -1):
        if before[-count:] == after[:count]:
            return count
    return 0


def _shorten(sentence: str) -> str:
    """Return the sentence, cut at the end of the last word that fits, or within a longer word."""
    if len(sentence) <= LONGEST_LINE:
        return sentence
    cut = sentence[:LONGEST_LINE].rpartition(" ")[0]
    return (cut or sentence[: LONGEST_LINE - 1]) + CUT


def _join_sentences(sentences: list[str]) -> str:
    """Join in one paragraph; a sentence without a mark at its end, such as a list item, gets a full stop."""
    *firsts, last = sentences or [""]
    return "".join([each + (" " if _END_MARK.search(each) else ". ") for each in firsts]) + last
