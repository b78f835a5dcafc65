"""What `# dslc: allow` comments speak of: the line they stand on, or the next one when they stand alone.

`dslc.check.allow` is what reads them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from dslc.syntax.reader import Atom, Comment, Entry, Group, Row

_ALLOW = re.compile(r"(?:#|//)[ \t]*dslc:[ \t]*allow\b")
_SILENT = re.compile(r"[ \t\r]*(?:#|//|\Z)")


_Range: TypeAlias = tuple[int, int]


def changed(before: Sequence[Row], text: str, after: Sequence[Row], written: str) -> set[int]:
    """Which rows of a file hold something that an `allow` comment spoke of before the file was written anew, and does
    not now, or the other way round."""
    if not _ALLOW.search(text):
        return set()
    tokens, comments = _spoken(before, text)
    _, now = _spoken(after, written)
    pairs = [(row, old, new) for (row, old), (_, new) in zip(comments, now, strict=True) if old != new]
    ranges = {given for _, old, new in pairs for given in (old, new)}
    return {row for row, _, _ in pairs} | {row for first, last in ranges for _, row in tokens[first:last]}


def _spoken(rows: Sequence[Row], text: str) -> tuple[list[tuple[int, int]], list[tuple[int, _Range]]]:
    """Line and row of every token, and for each `allow` comment its row and which tokens it speaks of, by number."""
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)][:-1]
    following = _following(lines)
    tokens: list[tuple[int, int]] = []
    comments: list[tuple[int, int]] = []  # row, line
    for at, row in enumerate(rows):
        for place in _places(row):
            start = place.start if isinstance(place, Comment) else place
            line = bisect_right(starts, start) - 1
            if not isinstance(place, Comment):
                tokens.append((line, at))
            elif _ALLOW.match(place.text):
                alone = not lines[line][: start - starts[line]].strip(" \t")
                comments.append((at, following[line] if alone else line))
    spoken = [(at, (bisect_left(tokens, (line, 0)), bisect_left(tokens, (line + 1, 0)))) for at, line in comments]
    return tokens, spoken


def _following(lines: Sequence[str]) -> list[int]:
    """For each line the first one from it on that is not blank and no comment."""
    found, at = [0] * len(lines), len(lines)
    for number in range(len(lines) - 1, -1, -1):
        if not _SILENT.match(lines[number]):
            at = number
        found[number] = at
    return found


def _places(row: Row) -> Iterator[int | Comment]:
    """Where every word, value and list of a row begins, and its comments, in order."""
    inner: Sequence[Row | None] = ()
    match row:
        case Comment():
            yield row
        case Atom():
            yield row.start
        case Entry():
            yield row.start
            inner = (row.value, row.body)
        case Group():
            yield from (row.start,) if row.brackets == "[]" else ()
            inner = (row.opening, *row.rows)
    for part in inner:
        if part is not None:
            yield from _places(part)
    if row.comment is not None:
        yield row.comment
