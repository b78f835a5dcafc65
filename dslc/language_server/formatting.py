"""The few edits that make one text another, so that cursors and marks of an editor stay where they are."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

_MOST_LINES = 1000  # to compare line by line


def difference(old: str, new: str) -> Iterator[tuple[int, int, str]]:
    """Edits (start, end, new text) that turn `old` into `new`, by whole lines, in order and apart from each other."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    first = _same(before, after)
    last = _same(before[first:][::-1], after[first:][::-1])
    middle, wanted = before[first : len(before) - last], after[first : len(after) - last]
    at = sum(map(len, before[:first]))
    if max(len(middle), len(wanted)) > _MOST_LINES:
        yield at, at + sum(map(len, middle)), "".join(wanted)
        return
    for tag, start, end, new_start, new_end in SequenceMatcher(None, middle, wanted, autojunk=False).get_opcodes():
        length = sum(map(len, middle[start:end]))
        if tag != "equal":
            yield at, at + length, "".join(wanted[new_start:new_end])
        at += length


def _same(left: list[str], right: list[str]) -> int:
    """How many lines are the same at the beginning."""
    pairs = zip(left, right, strict=False)
    return next((count for count, (one, other) in enumerate(pairs) if one != other), min(len(left), len(right)))
