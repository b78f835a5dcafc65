"""Finds the ends of sentences: not inside an address, a version, a number or a URL, nor after an abbreviation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_WHITE: Final = re.compile(r"\s*+")

# The look-behind keeps it linear: a run of marks is tried only at its beginning.
_SENTENCE_END: Final = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]*+(?=\s|\Z)"  # marks that need white space after them
    r"|[。！？｡．؟۔।॥։።፧។။༎]++[」』）”’】》〉\"')\]]*+"  # marks that do not
)
_MARK: Final = re.compile(r"[.!?…。！？｡．؟۔।॥።፧។។༎]")
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(\"'“‘])(?:[^\W\d_]|Mrs?|Ms|Dr|Prof|St|Jr|Sr|vs|cf|etc|al|Nr|No|Fig|Figs|Abb|Eq|Sec|Vol|pp|ca|bzw|vgl|"
    r"Mme|Mlle|Sra?|Dra?|e\.g|i\.e|z\.B|d\.h|u\.a|p\.ej|"
    r"approx|incl|excl|max|min|Inc|Ltd|Corp)\Z"
)


def sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the sentences from `start` to `end`, without surrounding white space."""
    start = _after_white(text, start, end)
    for match in _ends_in(text, start, end):
        after = _after_white(text, match.end(), end)
        if match.start() >= start and _ends(text, start, match, after):
            yield start, match.end()
            start = after
    stop = start + len(text[start:end].rstrip())
    if stop > start:
        yield start, stop


def _ends_in(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Yield the marks that may end a sentence. Searching for a set of characters is much faster than trying the pattern
    at each of them."""
    at = start
    while (mark := _MARK.search(text, at, end)) is not None:
        match = _SENTENCE_END.match(text, mark.start(), end)
        if match is None:
            at = mark.end()
        else:
            yield match
            at = match.end()


def _ends(text: str, start: int, match: re.Match[str], after: int) -> bool:
    """True if a full stop ends a sentence; other marks always do."""
    if not match[0].startswith(".") or after >= len(text):
        return True
    if text[after].islower():
        return False
    return match[0] != "." or not _ABBREVIATION.search(text[max(start, match.start() - 8) : match.start()])


def _after_white(text: str, start: int, end: int) -> int:
    match = _WHITE.match(text, start, end)
    return match.end() if match else start
