"""The entries of a text that is being edited, kept for the next question about it."""

from __future__ import annotations

from functools import lru_cache

from dslc.syntax.reader import EntryTree, read

_MOST = 200_000  # tokens of one piece to read


@lru_cache(maxsize=16_384)
def outline(text: str) -> EntryTree:
    """The reading of a text, usually of one piece. It is shared: do not change it."""
    return read(text, most=_MOST)
