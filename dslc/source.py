"""Bytes and text of a file, and positions in it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

LARGEST = 4 * 1024 * 1024  # bytes
_BOM = b"\xef\xbb\xbf"
_STEP = 1024  # characters between two stored offsets


class Span(NamedTuple):
    """Half-open range of byte offsets in the file; a byte-order mark is counted."""

    start: int
    end: int


class Position(NamedTuple):
    """A position for people: line and column count from 1; a column is one code point."""

    offset: int
    line: int
    column: int


class OffsetText:
    """A text that converts character indexes to byte offsets of its UTF-8 encoding."""

    def __init__(self, text: str) -> None:
        self.text = text

    def span(self, start: int, end: int) -> Span:
        """Byte range of `text[start:end]`; indexes outside the text are clamped."""
        return Span(self.offset(start), self.offset(end))

    def offset(self, index: int) -> int:
        """Number of bytes before the character `index`."""
        index = min(max(index, 0), len(self.text))
        if self.text.isascii():
            return index
        step = index // _STEP
        return self._steps[step] + len(self.text[step * _STEP : index].encode())

    @cached_property
    def _steps(self) -> list[int]:
        """Byte offset of each 1024th character."""
        chunks = (self.text[at : at + _STEP] for at in range(0, len(self.text), _STEP))
        return [0, *accumulate((len(chunk.encode()) for chunk in chunks), initial=0)][1:]


class Source:
    """One file to compile.

    `name`: as shown in reports. `text`: the decoded bytes without a byte-order mark, or None if they are not UTF-8.
    `span` converts indexes into the text to byte offsets.
    """

    def __init__(self, name: str, data: bytes | str) -> None:
        self.name = name
        self.data = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
        self._skipped = len(_BOM) if self.data.startswith(_BOM) else 0

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {len(self.data)} bytes)"

    @cached_property
    def undecodable(self) -> Span | None:
        """The first bytes that are not UTF-8, or None."""
        try:
            self.data[self._skipped :].decode()
        except UnicodeDecodeError as error:
            return Span(error.start + self._skipped, error.end + self._skipped)
        return None

    @cached_property
    def text(self) -> str | None:
        return None if self.undecodable else self.data[self._skipped :].decode()

    def span(self, start: int, end: int) -> Span:
        """Byte range of `text[start:end]` in the file."""
        return Span(self.offset(start), self.offset(end))

    def offset(self, index: int) -> int:
        """Byte offset of the character `index` of the text."""
        return self._offsets.offset(index) + self._skipped

    def indexes(self, offsets: Iterable[int]) -> Iterator[int]:
        """Yield the character index for each of `offsets` (ascending byte offsets); the inverse of `offset`."""
        at, index = self._skipped, 0
        for offset in offsets:
            index += len(self.data[at:offset].decode(errors="replace"))
            at = max(offset, at)
            yield index

    @cached_property
    def _offsets(self) -> OffsetText:
        return OffsetText(self.text or "")

    @cached_property
    def _lines(self) -> list[int]:
        """Byte offsets of the beginnings of lines."""
        starts, at = [self._skipped], self.data.find(b"\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.data.find(b"\n", at + 1)
        return starts

    def position(self, offset: int) -> Position:
        """Line and column of the byte `offset`."""
        line = max(bisect_right(self._lines, offset), 1)
        before = self.data[self._lines[line - 1] : max(offset, self._skipped)]
        return Position(offset, line, len(before.decode(errors="replace")) + 1)
