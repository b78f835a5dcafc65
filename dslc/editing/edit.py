"""Edits of a program's text that leave every other byte unchanged.

The functions expect a file without syntax errors and return one edit; `apply` returns the edited bytes. Values and
blocks are passed as text in the syntax of the language (`dslc.syntax.quoting`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from dslc.diagnostics.diagnostic import Edit
from dslc.editing.format import canonical, layout, line_end
from dslc.parse import File
from dslc.syntax.quoting import write_name
from dslc.syntax.reader import Atom, Comment, Entry, TextRow

_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)*(?:[ \t]*\Z)?")
_BLANKS = re.compile(r"[ \t]*")
_LINE_END = re.compile(r"[ \t]*(?:\r?\n|\Z)")


def apply(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply `edits` to `data`. Their spans are byte offsets into `data`; their order does not matter.

    Edits may touch. Several insertions at one offset keep their order, and precede a replacement of the bytes that
    follow. Raises ValueError if two edits overlap or one is out of range.
    """
    sections, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
        if not 0 <= edit.span.start <= edit.span.end <= len(data):
            raise ValueError(f"edit out of range: {edit.span} of {len(data)} bytes")
        if edit.span.start < at:
            raise ValueError(f"two edits overlap at byte {edit.span.start}")
        sections += [data[at : edit.span.start], edit.text.encode()]
        at = edit.span.end
    return b"".join([*sections, data[at:]])


def names(file: File, kind: str) -> list[str]:
    """Names of a file's blocks of one kind, in source order."""
    blocks = (row for row in layout(file) if isinstance(row, Entry) and row.key.text == kind)
    return [name for block in blocks if (name := _name(block)) is not None]


def block(kind: str, name: str, settings: Iterable[tuple[str, str]]) -> str:
    """Text of a block in canonical form, with a line end. `settings`: keys and values in the syntax of the language."""
    lines = "".join(f"{key} {value}\n" for key, value in settings)
    return canonical(f"{kind} {write_name(name)} {{\n{lines}}}\n")


def add_block(file: File, written: str) -> Edit:
    """Add a block, whose text ends with a line end, at the end of the file, after one empty line."""
    page = _Page(file)
    end = len(page.text.rstrip(" \t\r\n"))
    return page.edit(end, len(page.text), f"\n\n{written}" if end else written)


def remove_block(file: File, kind: str, name: str) -> Edit:
    """Remove a block, its line end, its comment, and the comments directly above it.

    If another block shares a line with it, only the block itself is removed. Raises LookupError unless there is
    exactly one such block.
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
    """Text and layout of one file. Creates edits from indexes into the text."""

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
        """Return the block with this kind and name. Raises LookupError unless there is exactly one."""
        found = [row for row in self.rows if isinstance(row, Entry) and row.key.text == kind and _name(row) == name]
        if len(found) != 1:
            what = f"{len(found)} times" if found else "not declared"
            raise LookupError(f"{kind} {name} is {what} in {self.source.name}")
        return found[0]

    def _line(self, at: int) -> int:
        """Index of the start of the line that contains `at`."""
        return self.text.rfind("\n", 0, at) + 1

    def removal(self, block: Entry, start: int) -> Edit:
        """Remove the lines from `start` to the end of a block; only the block if others share its lines."""
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
        """Remove whole lines, and the surplus empty lines around them."""
        content = len(self.text[:start].rstrip(" \t\r\n"))
        above = self.text.find("\n", content) + 1 if content else 0
        blank = _BLANK_LINES.match(self.text, end)
        below = blank.end() if blank else end
        if above == 0 or below == len(self.text):
            return self.edit(above, below, "")
        return self.edit(start, below if above < start else end, "")


def _name(block: Entry) -> str | None:
    """Name of a block; None if it has none or the name has an invalid escape."""
    if not isinstance(block.value, Atom):
        return None
    text = block.value.text
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        return None
