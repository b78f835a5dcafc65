"""Positions of the protocol: lines from 0, and code units of the encoding that the client requested."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate
from typing import Literal

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_LINE_END = re.compile(r"\r\n|\r|\n")


class Lines:
    """Lines of a text (ended by LF, CRLF or CR) and its positions: pairs of line and code units, both from 0."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self.text = text
        self.encoding = encoding

    @cached_property
    def starts(self) -> list[int]:
        """Index of the start of each line."""
        text = self.text
        if text.count("\r") != text.count("\r\n"):
            return [0, *(match.end() for match in _LINE_END.finditer(text))]
        lengths = (len(line) + 1 for line in text.split("\n"))
        return [0, *accumulate(lengths)][:-1]

    def position(self, index: int) -> tuple[int, int]:
        """Position of the character at `index`."""
        index = min(max(index, 0), len(self.text))
        line = bisect_right(self.starts, index) - 1
        if self.text.isascii():
            return line, index - self.starts[line]
        return line, units(self.text[self.starts[line] : index], self.encoding)

    def index(self, line: int, character: int) -> int:
        """Index of the character at a position. A position after the end of a line means its end; a line after the last
        means the end of the text."""
        if line < 0:
            return 0
        if line >= len(self.starts):
            return len(self.text)
        start, end = self.starts[line], self.end(line)
        if self.encoding == "utf-32" or self.text[start:end].isascii():
            return min(start + max(character, 0), end)
        return start + _characters(self.text[start:end], max(character, 0), self.encoding)

    def end(self, line: int) -> int:
        """Index of the end of a line, before its line ending."""
        if line + 1 >= len(self.starts):
            return len(self.text)
        end = self.starts[line + 1]
        return end - (2 if self.text.startswith("\r\n", end - 2) else 1)

    def line_of(self, index: int) -> int:
        """Number of the line that contains a character, from 0."""
        return bisect_right(self.starts, index) - 1


def units(text: str, encoding: Encoding) -> int:
    """Number of code units of a text."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


def _characters(text: str, count: int, encoding: Encoding) -> int:
    """Number of whole characters in the first `count` code units."""
    if encoding == "utf-16":
        cut = text.encode("utf-16-le", "surrogatepass")[: count * 2]
        if len(cut) >= 2 and 0xD8 <= cut[-1] <= 0xDB:  # half of a surrogate pair
            cut = cut[:-2]
        return len(cut.decode("utf-16-le", "surrogatepass"))
    encoded = text.encode("utf-8", "surrogatepass")
    count = min(count, len(encoded))
    while 0 < count < len(encoded) and encoded[count] & 0xC0 == 0x80:  # inside a character
        count -= 1
    return len(encoded[:count].decode("utf-8", "surrogatepass"))


def indexes(data: bytes, offsets: Iterable[int]) -> dict[int, int]:
    """Map byte offsets of UTF-8 to character indexes, in one pass over `data`."""
    if data.isascii():
        return {offset: offset for offset in offsets}
    found, at, index = {}, 0, 0
    for offset in sorted(set(offsets)):
        section = data[at:offset]
        try:
            index += len(section.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            index += len(section.decode("utf-8", "replace"))
        found[offset], at = index, offset
    return found
