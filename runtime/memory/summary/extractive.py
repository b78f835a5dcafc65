"""A summary without a model: the items' own sentences, the oldest first (the fifth design, M9, "Extractive Fallback").

The design tells it twice. The algorithm is followed to the letter: split by `[.!?]`, trim, each sentence once by its
sha256, in the order of time, as many as `max_words` holds, joined by `. `; so it is one paragraph, and not the bullets
of the strategy's outline. Of the outline's heuristic it takes what the algorithm leaves open, how long a sentence may
be: 180 characters. A longer one is cut at a word's end and not left out, since notes without a full stop would have no
summary at all.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final

LONGEST_LINE: Final = 180
"""Characters of a sentence in a summary at most."""

_TERMINATORS: Final = re.compile(r"[.!?]")


def extract(texts: Iterable[str], max_words: int) -> str:
    """The first sentences of `texts`, which stand in the order of time, `max_words` words at most.

    The first sentence that does not fit ends it; when that is the very first one, as much of it as fits is kept. The
    same texts have the same summary. Empty when they hold no sentence.
    """
    kept: list[str] = []
    room = max_words
    for sentence in _each_once(_sentences(texts)):
        words = _line(sentence).split()
        if len(words) > room:
            if not kept:
                kept.append(" ".join(words[:room]))
            break
        kept.append(" ".join(words))
        room -= len(words)
    return ". ".join(kept)


def _sentences(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for part in _TERMINATORS.split(text):
            # White space is evened out: a sentence over two lines is one, and the same wherever its lines break.
            sentence = " ".join(part.split())
            if sentence:
                yield sentence


def _each_once(sentences: Iterable[str]) -> Iterator[str]:
    seen: set[bytes] = set()
    for sentence in sentences:
        digest = hashlib.sha256(sentence.encode("utf-8", "replace")).digest()
        if digest not in seen:
            seen.add(digest)
            yield sentence


def _line(sentence: str) -> str:
    """The sentence, cut at the end of the last word that fits; in the middle of a word where that is longer."""
    if len(sentence) <= LONGEST_LINE:
        return sentence
    cut = sentence[: LONGEST_LINE + 1].rpartition(" ")[0]
    return cut or sentence[:LONGEST_LINE]
