"""What would change in a file, as a unified diff. Secrets written in it are hidden."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TypeAlias

from dslc.report.mask import masked
from dslc.source import Source

_CONTEXT = 3
_LONGEST = 1000  # lines that are compared with each other
_Change: TypeAlias = tuple[str, int, int, int, int]
_COLOURS = {"-": "\x1b[31m", "+": "\x1b[32m", "@": "\x1b[36m"}
_PLAIN = "\x1b[0m"


def unified(source: Source, data: bytes, *, colour: bool) -> str:
    """The diff from a source to what its file would hold. Both are UTF-8."""
    after = Source(source.name, data)
    lines = list(_diff(_lines(source), _lines(after)))
    if not lines:
        lines = ["\\ Only line ends or text that is not shown here would change"]
    head = [f"--- {source.name}", f"+++ {source.name}"]
    return "".join(f"{_painted(line, colour)}\n" for line in [*head, *lines])


def _lines(source: Source) -> list[str]:
    *lines, rest = masked(source.text or "").replace("\r\n", "\n").split("\n")
    return [*lines, f"{rest}\n\\ No newline at end of file"] if rest else lines


def _diff(before: list[str], after: list[str]) -> Iterator[str]:
    for group in _grouped(list(_changes(before, after))):
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
        for tag, from_before, to_before, from_after, to_after in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[from_before:to_before])
                continue
            yield from (f"-{line}" for line in before[from_before:to_before])
            yield from (f"+{line}" for line in after[from_after:to_after])


def _changes(before: list[str], after: list[str]) -> Iterator[_Change]:
    """What stays and what is replaced, in order: between two lines that both texts have once, one by one."""
    was_before = was_after = 0
    for to_before, to_after in [*_anchors(before, after), (len(before), len(after))]:
        here, there = before[was_before:to_before], after[was_after:to_after]
        if max(len(here), len(there)) > _LONGEST:  # the comparison would take a time that grows with the square
            yield ("replace", was_before, to_before, was_after, to_after)
        else:
            for tag, *places in SequenceMatcher(None, here, there, autojunk=False).get_opcodes():
                start, end, new_start, new_end = places
                yield (tag, was_before + start, was_before + end, was_after + new_start, was_after + new_end)
        was_before, was_after = to_before, to_after


def _anchors(before: list[str], after: list[str]) -> list[tuple[int, int]]:
    """Pairs of line numbers that belong together, rising on both sides: lines that differ from all others by more than
    white space (as patience diff does)."""
    here, there = _unique(before), _unique(after)
    pairs = [(number, there[key]) for key, number in here.items() if key in there]
    # The longest rising row: ends[n] is the lowest end of a rising row of n + 1 pairs.
    ends: list[int] = []
    tops: list[int] = []
    above: list[int] = []
    for at, (_, number) in enumerate(pairs):
        length = bisect_left(ends, number)
        ends[length : length + 1] = [number]
        tops[length : length + 1] = [at]
        above.append(tops[length - 1] if length else -1)
    found, at = [], tops[-1] if tops else -1
    while at >= 0:
        found.append(pairs[at])
        at = above[at]
    return found[::-1]


def _unique(lines: list[str]) -> dict[str, int]:
    keys = ["".join(line.split()) for line in lines]
    often = Counter(keys)
    return {key: number for number, key in enumerate(keys) if often[key] == 1}


def _grouped(changes: list[_Change]) -> Iterator[list[_Change]]:
    """The changes with some lines around them; those that are near each other together."""
    group: list[_Change] = []
    merged = _merged(changes)
    for at, (tag, start, end, new_start, new_end) in enumerate(merged):
        if tag != "equal":
            group.append((tag, start, end, new_start, new_end))
            continue
        lines, last = end - start, at == len(merged) - 1
        if group and (last or lines > 2 * _CONTEXT):
            kept = min(lines, _CONTEXT)
            yield [*group, (tag, start, start + kept, new_start, new_start + kept)]
            group = []
        if not last:
            kept = lines if group else min(lines, _CONTEXT)
            group.append((tag, end - kept, end, new_end - kept, new_end))
    if group:
        yield group


def _merged(changes: list[_Change]) -> list[_Change]:
    """With neighbours of one kind as one: what stays, and what does not."""
    merged: list[_Change] = []
    for change in changes:
        tag, _, end, _, new_end = change
        if merged and (merged[-1][0] == "equal") == (tag == "equal"):
            above = merged.pop()
            merged.append((tag, above[1], end, above[3], new_end))
        else:
            merged.append(change)
    return merged


def _range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + 1 if length else start},{length}" if length != 1 else f"{start + 1}"


def _painted(line: str, colour: bool) -> str:
    """A line for a terminal, where nothing in it moves the cursor or turns the direction of writing."""
    if not colour:
        return line
    shown = "".join(letter if letter.isprintable() or letter in "\t\n" else "\ufffd" for letter in line)
    return f"{_COLOURS[shown[0]]}{shown}{_PLAIN}" if shown[:1] in _COLOURS else shown
