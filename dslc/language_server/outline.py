"""Cached outlines of texts that are being edited."""

from __future__ import annotations

from functools import lru_cache

from dslc.syntax.reader import EntryTree, read_entries

_MOST = 200_000  # tokens read of one section


@lru_cache(maxsize=16_384)
def outline(text: str) -> EntryTree:
    """Return the entry tree of a text, usually of one section. The tree is shared: do not change it."""
    return read_entries(text, most=_MOST)
