"""A file's bytes, its text, and where in it something stands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

LARGEST = 4 * 1024 * 1024  # bytes
_BOM = b"\xef\xbb\xbf"
_STEP = 1024  # characters between two remembered offsets


class Span(NamedTuple):
    """From `start` up to `end`, in bytes from the beginning of the file (a byte-order mark counts)."""

    start: int
    end: int


class Position(NamedTuple):
    """A place as people count it: line and column from 1, a column being one code point."""

    offset: int
    line: int
    column: int


class OffsetText:
    """A text and where its characters stand in its UTF-8 bytes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def span(self, start: int, end: int) -> Span:
        """The bytes of `text[start:end]`; indexes outside the text mean its ends."""
        return Span(self.offset(start), self.offset(end))

    def offset(self, index: int) -> int:
        """The bytes before the character `index`."""
        index = min(max(index, 0), len(self.text))
        if self.text.isascii():
            return index
        step = index // _STEP
        return self._steps[step] + len(self.text[step * _STEP : index].encode())

    @cached_property
    def _steps(self) -> list[int]:
        """Byte offsets of every 1024th character."""
        pieces = (self.text[at : at + _STEP] for at in range(0, len(self.text), _STEP))
        return [0, *accumulate((len(piece.encode()) for piece in pieces), initial=0)][1:]


class Source:
    """One file to compile.

    `name` is what reports call it. `text` is what the bytes say without a byte-order mark, or None when they are not
    UTF-8; indexes into it become byte offsets by `span`.
    """

    def __init__(self, name: str, data: bytes | str) -> None:
        self.name = name
        self.data = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
        self._skipped = len(_BOM) if self.data.startswith(_BOM) else 0

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {len(self.data)} bytes)"

    @cached_property
    def undecodable(self) -> Span | None:
        """The first bytes that are not UTF-8."""
        try:
            self.data[self._skipped :].decode()
        except UnicodeDecodeError as error:
            return Span(error.start + self._skipped, error.end + self._skipped)
        return None

    @cached_property
    def text(self) -> str | None:
        return None if self.undecodable else self.data[self._skipped :].decode()

    def span(self, start: int, end: int) -> Span:
        """The bytes of `text[start:end]`."""
        return Span(self.offset(start), self.offset(end))

    def offset(self, index: int) -> int:
        """The byte at which the character `index` of the text stands."""
        return self._offsets.offset(index) + self._skipped

    def indexes(self, offsets: Iterable[int]) -> Iterator[int]:
        """The characters of the text that stand at the bytes `offsets`, which ascend; what `offset` undoes."""
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
        """Where the byte `offset` stands."""
        line = max(bisect_right(self._lines, offset), 1)
        before = self.data[self._lines[line - 1] : max(offset, self._skipped)]
        return Position(offset, line, len(before.decode(errors="replace")) + 1)
