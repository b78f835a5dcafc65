"""A summary without a model: the items' own sentences, the oldest first (the fifth design, M9, "Extractive Fallback").

It is one paragraph, as the design's algorithm has it, and departs from its letter where that falsifies what was said:
sentences are split where they end and not at every `.`, `!` and `?`, they keep these marks, and a repeated sentence is
left out only where what stands around it stays true without it (see `_told`). Of the outline's heuristic it takes how
long a sentence may be: 180 characters. What is longer is cut at a word's end, and shows it by `…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from runtime.memory.chunking import statements

LONGEST_LINE: Final = 180
"""Characters of a sentence in a summary at most."""
MOST_REPEATED: Final = 100
"""Sentences that a chunk repeats of the one before it at most."""
CUT: Final = "…"
"""What stands where something was cut off."""

# `- 5 degrees` may be a negative number as well.
_BULLET: Final = re.compile(r"\A(?:[-*+•‣] |[・●○] ?|#{1,6} )(?!\d)")
_ENDED: Final = re.compile(r"[.!?…:;。！？｡．؟۔।॥։።፧][\"'”’»)\]*_」』）》〉]*\Z")


def extract(texts: Iterable[str], max_words: int) -> str:
    """The first sentences of `texts`, which stand in the order of time, `max_words` words at most.

    The first sentence that does not fit ends it; when that is the very first one, as much of it as fits is kept. The
    same texts have the same summary. Empty when they hold no sentence.
    """
    kept: list[str] = []
    room = max_words
    for sentence in _told(texts):
        words = _line(sentence).split()
        if len(words) > room:
            if not kept:
                kept.append(" ".join(words[:room]) + CUT)
            break
        kept.append(" ".join(words))
        room -= len(words)
    return _joined(kept)


def _told(texts: Iterable[str]) -> Iterator[str]:
    """The sentences of all texts, but for texts that say nothing new, and for what a text repeats at its beginning of
    the end of the one before it, as chunks do. Any other repetition stays: `Is B done? Yes.` may follow `Is A done?
    Yes.`."""
    said: set[str] = set()
    before: list[str] = []
    for text in texts:
        sentences = list(_sentences(text))
        again = [_same(sentence) for sentence in sentences]
        new = _repeated(before, again)
        if not said.issuperset(again[new:]):
            yield from sentences[new:]
        said.update(again)
        before = again


def _sentences(text: str) -> Iterator[str]:
    for part in statements(text):
        # White space is evened out: a sentence over two lines is one, and the same wherever its lines break.
        sentence = _BULLET.sub("", " ".join(part.split()))
        if any(map(str.isalnum, sentence)):
            yield sentence


def _same(sentence: str) -> str:
    """What is equal for two sentences that say the same: a question is not its answer."""
    return sentence.rstrip(".!")


def _repeated(before: list[str], after: list[str]) -> int:
    """How many of the last sentences `before` stand at the beginning of `after`."""
    for count in range(min(len(before), len(after), MOST_REPEATED), 0, -1):
        if before[-count:] == after[:count]:
            return count
    return 0


def _line(sentence: str) -> str:
    """The sentence, cut at the end of the last word that fits; in the middle of a word where that is longer."""
    if len(sentence) <= LONGEST_LINE:
        return sentence
    cut = sentence[:LONGEST_LINE].rpartition(" ")[0]
    return (cut or sentence[: LONGEST_LINE - 1]) + CUT


def _joined(sentences: list[str]) -> str:
    """In one paragraph. What ends without a mark, such as an item of a list, gets a full stop before the next."""
    *firsts, last = sentences or [""]
    return "".join([each + (" " if _ENDED.search(each) else ". ") for each in firsts]) + last
