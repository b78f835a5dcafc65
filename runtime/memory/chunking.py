"""Splits a text into chunks that end where sentences end: the unit that is embedded and found.

Headings, lists, tables and fenced code (CommonMark 0.31, sections 4.2, 5.2 and 4.5) stay together if they fit, and a
heading stays with the text below it. Every chunk is an unchanged part of the text, so that a hit can be located.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from runtime.memory.sentences import sentences

_LINE: Final = re.compile(r"[^\n]*+\n?+")
_FENCE: Final = re.compile(r"[ \t]{0,3}(`{3,}+|~{3,}+)(.*)")
_HEADING: Final = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t]|$)")
_LIST_ITEM: Final = re.compile(r"[ \t]*+(?:[-*+•‣]|\d{1,9}[.)、])[ \t]+\S|[ \t]*+[・●○][ \t]*+\S")
_TABLE_ROW: Final = re.compile(r"[ \t]*+\|")
_WORD: Final = re.compile(r"[^\s、，；：]++[、，；：]*+|[、，；：]++")
_JOINED: Final = frozenset("\u200d\ufe0e\ufe0f")


class _Piece(NamedTuple):
    """A part of the text that is not divided further. `whole`: one or more sentences or lines, not part of a
    sentence."""

    start: int
    end: int
    whole: bool = True


class _Block(NamedTuple):
    """Lines that belong together. `parts`: where to divide a block that is too long, at lines or items; empty for a
    paragraph, which is always divided into sentences."""

    start: int
    end: int
    parts: tuple[tuple[int, int], ...] = ()
    heading: bool = False


def chunks(text: str, size: int, overlap: int = 0) -> list[str]:
    """Split the text into chunks of at most `size` characters, in order; blank text has none.

    Everything except white space between chunks is in one of them. A chunk begins with the last whole sentences of the
    previous one, as many as fit into `overlap` characters (and half of `size`) and leave room for new text. A sentence
    longer than `size` is cut between words, a longer word anywhere. Deterministic; linear time. Raises ValueError for a
    size below 1 or an overlap below 0.
    """
    return [text[start:end] for start, end in spans(text, size, overlap)]


def spans(text: str, size: int, overlap: int = 0) -> list[tuple[int, int]]:
    """Return where each of `chunks` begins and ends."""
    if size < 1 or overlap < 0:
        raise ValueError("a chunk has at least one character, and an overlap none or more")
    if 0 < len(text) <= size and not text[0].isspace():
        return [(0, len(text.rstrip()))]  # a shortcut with the same result, faster for many short texts
    pieces = list(_with_headings(_pieces(text, size), size))
    found: list[tuple[int, int]] = []
    first = 0
    for number, (piece, _) in enumerate(pieces):
        if piece.end - pieces[first][0].start > size:
            found.append((pieces[first][0].start, pieces[number - 1][0].end))
            first = _first([each for each, _ in pieces[first : number + 1]], size, min(overlap, size // 2)) + first
    if pieces:
        found.append((pieces[first][0].start, pieces[-1][0].end))
    return found


def statements(text: str) -> Iterator[str]:
    """Yield the sentences of the text and its other units (a heading, a list item, a table row). Everything except
    white space is in one of them."""
    for block in _blocks(text):
        for start, end in block.parts or ((block.start, block.end),):
            for begin, stop in sentences(text, start, end):
                yield text[begin:stop]


def _first(pieces: list[_Piece], size: int, overlap: int) -> int:
    """Return the index of the first piece of the next chunk: the last one, or earlier whole ones that are repeated."""
    last = len(pieces) - 1
    at = last
    while (
        at > 1
        and pieces[at - 1].whole
        and pieces[last - 1].end - pieces[at - 1].start <= overlap
        and pieces[last].end - pieces[at - 1].start <= size
    ):
        at -= 1
    return at


def _with_headings(pieces: Iterable[tuple[_Piece, bool]], size: int) -> Iterator[tuple[_Piece, bool]]:
    """Join each heading with the text below it, if both fit."""
    above: _Piece | None = None
    for piece, heading in pieces:
        joined = piece
        if above is not None:
            if piece.end - above.start <= size:
                joined = _Piece(above.start, piece.end, piece.whole)
            else:
                yield above, True
        above = joined if heading else None
        if above is None:
            yield joined, False
    if above is not None:
        yield above, True


def _pieces(text: str, size: int) -> Iterator[tuple[_Piece, bool]]:
    """Yield the pieces of the text, none longer than `size`, and which of them are headings."""
    for block in _blocks(text):
        if (block.parts or block.heading) and block.end - block.start <= size:
            yield _Piece(block.start, block.end), block.heading
            continue
        for start, end in block.parts or ((block.start, block.end),):
            if block.parts and end - start <= size:
                yield _Piece(start, end), False
            else:
                for piece in _sentences_of(text, start, end, size):
                    yield piece, False


def _sentences_of(text: str, start: int, end: int, size: int) -> Iterator[_Piece]:
    """Yield the sentences in this range; one that is too long is divided into lines, words or parts of a word."""
    for begin, stop in sentences(text, start, end):
        if stop - begin <= size:
            yield _Piece(begin, stop)
            continue
        for line in _lines(text, begin, stop):
            if line[1] - line[0] <= size:
                yield _Piece(*line, whole=False)
                continue
            for word in _WORD.finditer(text, *line):
                yield from (_Piece(*part, whole=False) for part in _split_word(text, *word.span(), size))


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the lines from `start` to `end` that are not blank, without surrounding white space."""
    for line in _LINE.finditer(text, start, end):
        found = _trimmed_span(text, *line.span())
        if found[0] < found[1]:
            yield found


def _trimmed_span(text: str, start: int, end: int) -> tuple[int, int]:
    inside = text[start:end]
    return start + len(inside) - len(inside.lstrip()), start + len(inside.rstrip())


def _split_word(text: str, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Split a word into parts of `size` characters, if possible not before a combining character."""
    while end - start > size:
        stop = start + size
        for at in range(stop, max(start, stop - 8), -1):
            if not (unicodedata.combining(text[at]) or text[at] in _JOINED or text[at - 1] == "\u200d"):
                stop = at
                break
        yield start, stop
        start = stop
    if start < end:
        yield start, end


class _OpenBlock:
    """The block that lines are added to."""

    def __init__(self, kind: str, start: int, end: int, fence: str = "") -> None:
        self.kind, self.start, self.end, self.fence = kind, start, end, fence
        self.parts = [(start, end)]

    def add(self, start: int, end: int, *, part: bool) -> None:
        """Extend the block to `end`; `part`: a part begins at `start`."""
        self.end = end
        if part:
            self.parts.append((start, end))
        else:
            self.parts[-1] = (self.parts[-1][0], end)

    def block(self) -> _Block:
        """Return the finished block."""
        parts = () if self.kind == "paragraph" else tuple(self.parts)
        return _Block(self.start, self.end, parts)


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the blocks of the text; only white space is between them."""
    at: _OpenBlock | None = None
    blank = False
    for match in _LINE.finditer(text):
        start, line = match.start(), match[0]
        end = start + len(line.rstrip())
        if end == start:
            blank = True
            continue
        if at is not None and at.kind == "code":
            at.add(start, end, part=True)
            if _closes(line, at.fence):
                yield at.block()
                at = None
            blank = False
            continue
        kind = _kind(line)
        if kind is None:
            kind = at.kind if at is not None and _goes_on(at, line, blank=blank) else "paragraph"
            part = kind == "table"
        else:
            part = True
        if at is not None and (kind != at.kind or kind in {"heading", "code"} or (blank and kind != "list")):
            yield at.block()
            at = None
        if kind == "heading":
            yield _Block(start, end, heading=True)
        elif at is None:
            at = _OpenBlock(kind, start, end, _fence(line))
        else:
            at.add(start, end, part=part)
        blank = False
    if at is not None:
        yield at.block()


def _kind(line: str) -> str | None:
    """Return the kind of block that a line begins or continues on its own; None for ordinary text."""
    if _fence(line):
        return "code"
    if _HEADING.match(line):
        return "heading"
    if _LIST_ITEM.match(line):
        return "list"
    return "table" if _TABLE_ROW.match(line) else None


def _goes_on(at: _OpenBlock, line: str, *, blank: bool) -> bool:
    """True if an ordinary line belongs to the previous block."""
    if at.kind == "list":
        return not blank or line.startswith((" ", "\t"))
    return at.kind == "paragraph" and not blank


def _fence(line: str) -> str:
    """Return the mark that opens fenced code, empty for any other line."""
    match = _FENCE.match(line)
    if match is None or (match[1][0] == "`" and "`" in match[2]):
        return ""
    return match[1]


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and not mark.strip(fence[0])
