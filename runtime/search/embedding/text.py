"""Prepares any text for embedding."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def readable(text: str) -> str:
    """Return `text` in a form that every model and JSON accept: pairs of surrogates become one character, others
    U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def original_places(text: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the beginnings and ends in `text` of those in `readable(text)`, where a pair is one character."""
    pairs = [found.start() - number for number, found in enumerate(_PAIR.finditer(text))]
    return [(begin + bisect_left(pairs, begin), end + bisect_left(pairs, end)) for begin, end in places]


def is_blank(text: str) -> bool:
    """Return True if there is nothing to embed: such a text has the zero vector, which is similar to nothing."""
    return not text.strip()
