"""What `# dslc: allow` comments speak of: the line they stand on and the next."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dslc.layout import Comment, Entry, Group, Row

_ALLOW = re.compile(r"(?:#|//)\s*dslc:\s*allow")


@dataclass(frozen=True, slots=True)
class _Spoken:
    """The tokens that a comment speaks of, by their number in the file, and the rows of the file that hold them."""

    tokens: list[int]
    rows: set[int]


def changed(before: Sequence[Row], text: str, after: Sequence[Row], written: str) -> set[int]:
    """Which rows of a file hold something that an `allow` comment spoke of before the file was written anew, and does
    not now, or the other way round."""
    if not _ALLOW.search(text):
        return set()
    pairs = zip(_spoken(before, text), _spoken(after, written), strict=True)
    return {row for old, new in pairs if old.tokens != new.tokens for row in old.rows | new.rows}


def speaks(comment: Comment) -> bool:
    """Whether it is an `allow` comment."""
    return _ALLOW.match(comment.text) is not None


def _spoken(rows: Sequence[Row], text: str) -> list[_Spoken]:
    ends = [match.start() for match in re.finditer("\n", text)]
    tokens: list[tuple[int, int]] = []  # line, row
    comments: list[tuple[int, int]] = []
    for at, row in enumerate(rows):
        for place in _places(row):
            if not isinstance(place, Comment):
                tokens.append((bisect_left(ends, place), at))
            elif speaks(place):
                comments.append((bisect_left(ends, place.start), at))
    found = []
    for line, at in comments:
        first, last = bisect_left(tokens, (line, 0)), bisect_left(tokens, (line + 2, 0))
        found.append(_Spoken(list(range(first, last)), {at, *(row for _, row in tokens[first:last])}))
    return found


def _places(row: Row) -> Iterator[int | Comment]:
    """Where every word, value and list of a row begins, and its comments, in order."""
    match row:
        case Comment():
            yield row
        case Entry():
            yield row.start
            for part in (row.value, row.body):
                if part is not None:
                    yield from _places(part)
        case Group():
            if row.brackets == "[]":
                yield row.start
            if row.opening is not None:
                yield row.opening
            for inner in row.rows:
                yield from _places(inner)
        case _:
            yield row.start
    if row.comment is not None:
        yield row.comment
