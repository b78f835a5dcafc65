"""Minimal edits between two texts, so that cursors and bookmarks of an editor keep their positions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from dslc.report.line_matcher import LineMatcher


def difference(old: str, new: str) -> Iterator[tuple[int, int, str]]:
    """Edits (start, end, new text) that turn `old` into `new`: whole lines, in order, without overlaps."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, before))]
    for tag, start, end, new_start, new_end in LineMatcher(before, after).get_opcodes():
        if tag != "equal":
            yield starts[start], starts[end], "".join(after[new_start:new_end])
