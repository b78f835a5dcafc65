"""Comparison of two texts by lines in linear time, based on difflib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import Match, SequenceMatcher

_LONGEST = 1000  # lines that difflib compares at once: its time is quadratic


class LineMatcher(SequenceMatcher[str]):
    """A SequenceMatcher that first pairs lines that occur once in each text, ignoring white space.

    difflib compares only the lines between two pairs. Lines that moved past a paired one count as changed.
    """

    def __init__(self, before: list[str], after: list[str]) -> None:
        super().__init__(None, "", "", autojunk=False)
        self.a, self.b = before, after  # skips difflib's index of all lines

    def get_matching_blocks(self) -> list[Match]:
        """Equal ranges in order, and an empty one at the end, as in SequenceMatcher."""
        found: list[Match] = []
        for match in self._equal_ranges():
            if found and (found[-1].a + found[-1].size, found[-1].b + found[-1].size) == (match.a, match.b):
                found[-1] = found[-1]._replace(size=found[-1].size + match.size)
            else:
                found.append(match)
        return [*found, Match(len(self.a), len(self.b), 0)]

    def _equal_ranges(self) -> Iterator[Match]:
        start = other = 0
        for end, other_end in [*self._pairs(), (len(self.a), len(self.b))]:
            if max(end - start, other_end - other) <= _LONGEST:
                between = SequenceMatcher(None, self.a[start:end], self.b[other:other_end], autojunk=False)
                for match in between.get_matching_blocks()[:-1]:
                    yield Match(start + match.a, other + match.b, match.size)
            start, other = end, other_end

    def _pairs(self) -> Iterator[tuple[int, int]]:
        """Pairs of line numbers, ascending on both sides."""
        after, last = _unique_lines(self.b), -1
        for line, number in _unique_lines(self.a).items():
            if after.get(line, -1) > last:
                last = after[line]
                yield number, last


def _unique_lines(lines: list[str]) -> dict[str, int]:
    """Lines that occur once, ignoring white space, with their numbers."""
    bare = ["".join(line.split()) for line in lines]
    count = Counter(bare)
    return {line: number for number, line in enumerate(bare) if count[line] == 1}
