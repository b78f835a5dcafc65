"""Fenced blocks and comments at the left edge: their content is neither a heading nor an item."""

from __future__ import annotations

import re
from collections.abc import Sequence

from runtime.memory.markdown.text.annotation import MARK
from runtime.memory.markdown.text.lines import BLANK, body

_FENCE = re.compile(r"(`{3,}|~{3,})(.*)$")


class Inseparable(ValueError):  # noqa: N818 - it says what is in the way
    """An item cannot be changed or deleted without hiding or changing another one."""

    def __init__(self, line: int) -> None:
        """`line`: of the item, counted from 1."""
        super().__init__(f"line {line} prevents a code block or a comment before it from being closed further below")
        self.line = line


def literal_ranges(lines: Sequence[str], *, marks_end_fences: bool = False) -> list[tuple[int, int]]:
    """Return the blocks as line ranges.

    An unclosed block is plain text, or else a person's mistake would hide everything below it. A fence is closed at the
    left edge only, and a comment not by a line that opens another, so that no item can close either.
    `marks_end_fences`: a line that begins with an annotation is in no fence, so what was written with one is not inside
    a fence that was open before it and is closed after it.
    """
    found: list[tuple[int, int]] = []
    closers = _Closers(lines, marks_end_fences=marks_end_fences)
    at = 0
    while at < len(lines):
        end = closers.end(at) if lines[at][:1] in {"`", "~", "<", "\ufeff"} else None
        if end is not None:
            found.append((at, end))
        at = at + 1 if end is None else end
    return found


class _Closers:
    """Finds ends of blocks. It remembers unclosed ones, so that a file of openers takes linear time."""

    def __init__(self, lines: Sequence[str], *, marks_end_fences: bool) -> None:
        self._lines = lines
        self._marks_end_fences = marks_end_fences
        self._open: dict[str, tuple[int, int]] = {}
        """By its mark: the length of an unclosed fence, and the line up to which that is known."""

    def end(self, at: int) -> int | None:
        """Return the line after the block that begins on this line; None if none does or it is never closed."""
        text = body(self._lines[at])
        fence = _FENCE.match(text)
        if fence is not None:
            return self._fence(at, fence[1]) if "`" not in fence[2] or fence[1][0] == "~" else None
        return self._comment(at) if text.startswith("<!--") else None

    def _fence(self, at: int, fence: str) -> int | None:
        length, until = self._open.get(fence[0], (len(fence) + 1, 0))
        if len(fence) >= length and at < until:
            return None
        for number in range(at + 1, len(self._lines)):
            text = self._lines[number].rstrip(BLANK)
            if text.startswith(fence) and not text.strip(fence[0]):
                return number + 1
            if self._marks_end_fences and text.startswith(MARK):
                self._open[fence[0]] = len(fence), number
                return None
        self._open[fence[0]] = len(fence), len(self._lines)
        return None

    def _comment(self, at: int) -> int | None:
        if "-->" in self._lines[at]:
            return at + 1
        for number in range(at + 1, len(self._lines)):
            opens, closes = self._lines[number].find("<!--"), self._lines[number].find("-->")
            if opens >= 0:
                return None
            if closes >= 0:
                return number + 1
        return None
