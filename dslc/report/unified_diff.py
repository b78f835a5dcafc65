"""Unified diff of a file's changes, with literal secrets hidden."""

from __future__ import annotations

from collections.abc import Iterator

from dslc.report.line_matcher import LineMatcher
from dslc.report.mask import masked
from dslc.source import Source

_COLOURS = {"-": "\x1b[31m", "+": "\x1b[32m", "@": "\x1b[36m"}
_PLAIN = "\x1b[0m"


def unified_diff(source: Source, data: bytes, *, colour: bool) -> str:
    """Diff from a source to the new content `data`. Both are UTF-8."""
    lines = list(_diff(_lines(source), _lines(Source(source.name, data))))
    if not lines:
        lines = ["\\ Only line ends or hidden text would change"]
    head = [f"--- {source.name}", f"+++ {source.name}"]
    return "".join(f"{_paint(line, colour)}\n" for line in [*head, *lines])


def _lines(source: Source) -> list[str]:
    *lines, rest = masked(source.text or "").replace("\r\n", "\n").split("\n")
    return [*lines, f"{rest}\n\\ No newline at end of file"] if rest else lines


def _diff(before: list[str], after: list[str]) -> Iterator[str]:
    for group in LineMatcher(before, after).get_grouped_opcodes():
        (_, start, _, new_start, _), (_, _, end, _, new_end) = group[0], group[-1]
        yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@"
        for tag, here, to_here, there, to_there in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[here:to_here])
            else:
                yield from (f"-{line}" for line in before[here:to_here])
                yield from (f"+{line}" for line in after[there:to_there])


def _range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + 1 if length else start},{length}" if length != 1 else f"{start + 1}"


def _paint(line: str, colour: bool) -> str:
    """Colour a line for a terminal, without characters that move the cursor or change the writing direction."""
    if not colour:
        return line
    shown = "".join(letter if letter.isprintable() or letter in "\t\n" else "\ufffd" for letter in line)
    return f"{_COLOURS[shown[0]]}{shown}{_PLAIN}" if shown[:1] in _COLOURS else shown
