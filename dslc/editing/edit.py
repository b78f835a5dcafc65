"""Edits of a program's text that leave everything else byte for byte as it is.

The functions take a file without a syntax error and give the one edit that does it; `apply` makes the bytes. Values
and blocks are given as the language writes them (`dslc.syntax.quoting`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from dslc.diagnostics.diagnostic import Edit
from dslc.editing.format import canonical, layout, line_end
from dslc.parse import File
from dslc.syntax.quoting import named
from dslc.syntax.reader import Atom, Comment, Entry, TextRow

_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)*(?:[ \t]*\Z)?")
_BLANKS = re.compile(r"[ \t]*")
_LINE_END = re.compile(r"[ \t]*(?:\r?\n|\Z)")


def apply(data: bytes, edits: Iterable[Edit]) -> bytes:
    """`data` after `edits`, whose spans are bytes of `data` and whose order does not matter.

    Edits may touch. Of several insertions at one place the first given comes first, and all of them come before
    what replaces the bytes that follow. Raises ValueError when two edits overlap or one lies outside.
    """
    sections, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
        if not 0 <= edit.span.start <= edit.span.end <= len(data):
            raise ValueError(f"an edit lies outside: {edit.span} of {len(data)} bytes")
        if edit.span.start < at:
            raise ValueError(f"two edits overlap at byte {edit.span.start}")
        sections += [data[at : edit.span.start], edit.text.encode()]
        at = edit.span.end
    return b"".join([*sections, data[at:]])


def names(file: File, kind: str) -> list[str]:
    """The names of a file's blocks of a kind, in order."""
    blocks = (row for row in layout(file) if isinstance(row, Entry) and row.key.text == kind)
    return [name for block in blocks if (name := _name(block)) is not None]


def block(kind: str, name: str, settings: Iterable[tuple[str, str]]) -> str:
    """A block in canonical form with its line's end. `settings`: keys and values, each as the language writes it."""
    lines = "".join(f"{key} {value}\n" for key, value in settings)
    return canonical(f"{kind} {named(name)} {{\n{lines}}}\n")


def add_block(file: File, written: str) -> Edit:
    """Add a block, which ends with its line's end, at the end of the file, with one empty line before it."""
    page = _Page(file)
    end = len(page.text.rstrip(" \t\r\n"))
    return page.edit(end, len(page.text), f"\n\n{written}" if end else written)


def remove_block(file: File, kind: str, name: str) -> Edit:
    """Remove a block, its line's end, its comment, and the comments that stand directly above it.

    Where another block shares a line with it, only the block itself goes. Raises LookupError when there is no such
    block, or more than one.
    """
    page = _Page(file)
    gone = page.block(kind, name)
    first: TextRow = gone
    for row in reversed(page.rows[: page.rows.index(gone)]):
        if first.gap or not isinstance(row, Comment):
            break
        first = row
    return page.removal(gone, first.start)


class _Page:
    """One file's text, how it is laid out, and the edits of it by indexes into the text."""

    def __init__(self, file: File) -> None:
        if not file.readable:
            raise ValueError(f"{file.source.name} has a syntax error")
        self.source = file.source
        self.text = file.source.text or ""
        self.rows: list[TextRow] = layout(file)
        self._line_end = line_end(file)

    def edit(self, start: int, end: int, text: str) -> Edit:
        return Edit(self.source.span(start, end), text.replace("\r\n", "\n").replace("\n", self._line_end))

    def block(self, kind: str, name: str) -> Entry:
        """The block of a kind and name. Raises LookupError when there is none, or more than one."""
        found = [row for row in self.rows if isinstance(row, Entry) and row.key.text == kind and _name(row) == name]
        if len(found) != 1:
            what = f"{len(found)} times" if found else "not declared"
            raise LookupError(f"{kind} {name} is {what} in {self.source.name}")
        return found[0]

    def _line(self, at: int) -> int:
        """Where the line begins that holds `at`."""
        return self.text.rfind("\n", 0, at) + 1

    def removal(self, block: Entry, start: int) -> Edit:
        """Remove the lines from `start` to the end of a block; only the block where others share its lines."""
        rest = _LINE_END.match(self.text, block.comment.end if block.comment else block.end)
        if rest and self._begins_line(start) and self._begins_line(block.start):
            return self._lines_removal(self._line(start), rest.end())
        if block.comment is not None or _LINE_END.match(self.text, block.end):
            kept = self.text[: block.start].rstrip(" \t")
            return self.edit(len(kept), block.end, "")
        blanks = _BLANKS.match(self.text, block.end)
        return self.edit(block.start, blanks.end() if blanks else block.end, "")

    def _begins_line(self, at: int) -> bool:
        return not self.text[self._line(at) : at].strip(" \t")

    def _lines_removal(self, start: int, end: int) -> Edit:
        """Remove whole lines, and the empty lines around them that would then be too many."""
        content = len(self.text[:start].rstrip(" \t\r\n"))
        above = self.text.find("\n", content) + 1 if content else 0
        blank = _BLANK_LINES.match(self.text, end)
        below = blank.end() if blank else end
        if above == 0 or below == len(self.text):
            return self.edit(above, below, "")
        return self.edit(start, below if above < start else end, "")


def _name(block: Entry) -> str | None:
    """The name of a block; None when it has none, or one with a wrong escape."""
    if not isinstance(block.value, Atom):
        return None
    text = block.value.text
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        return None
