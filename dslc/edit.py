"""Edits of a program's text that leave everything else byte for byte as it is.

The functions take a file without a syntax error and give the one edit that does it; `apply` makes the bytes. Values
and blocks are given as the language writes them (`dslc.literal`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from dslc.diagnostic import Edit
from dslc.format import canonical, layout, line_end
from dslc.layout import Atom, Comment, Entry, Group, Row
from dslc.literal import named
from dslc.syntax import File

_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)*(?:[ \t]*\Z)?")
_COMMA = re.compile(r"[ \t]*,")
_BLANKS = re.compile(r"[ \t]*")
_LINE_END = re.compile(r"[ \t]*(?:\r?\n|\Z)")
_CLOSING = re.compile(r"[ \t]*}")
_INDENT = "    "


def apply(data: bytes, edits: Iterable[Edit]) -> bytes:
    """`data` after `edits`, whose spans are bytes of `data` and whose order does not matter.

    Edits may touch. Of several insertions at one place the first given comes first, and all of them come before
    what replaces the bytes that follow. Raises ValueError when two edits overlap or one lies outside.
    """
    pieces, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
        if not 0 <= edit.span.start <= edit.span.end <= len(data):
            raise ValueError(f"an edit lies outside: {edit.span} of {len(data)} bytes")
        if edit.span.start < at:
            raise ValueError(f"two edits overlap at byte {edit.span.start}")
        pieces += [data[at : edit.span.start], edit.text.encode()]
        at = edit.span.end
    return b"".join([*pieces, data[at:]])


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
    first: Row = gone
    for row in reversed(page.rows[: page.rows.index(gone)]):
        if first.gap or not isinstance(row, Comment):
            break
        first = row
    return page.removal(gone, first.start)


def set_setting(file: File, kind: str, name: str, path: Sequence[str], value: str) -> Edit:
    """Give the setting under the keys `path` of a block the value `value`, which may bring its own options.

    A setting that is there has its value replaced, and the options of that value with it. Else it comes after the last
    setting of its body, in the same column; a group on the way to it that is not there is made. Raises LookupError when
    there is no such block, or when the block or a key on the way is there twice, or is no setting.
    """
    page = _Page(file)
    body, keys = page.body(page.block(kind, name)), list(path)
    while True:
        key = keys.pop(0)
        entry = _entry(body, key)
        if entry is None or not keys:
            break
        if entry.body is None:
            return page.replace(entry.end, entry.end, f" {{ {_written(keys, value)} }}")
        body = entry.body
    if entry is None:
        return page.insertion(body, key, _written([key, *keys], value)[len(key) + 1 :], is_group=bool(keys))
    if entry.value is None:
        raise LookupError(f"{key} is a group")
    return page.replace(entry.value.start, entry.end, value)


def remove_setting(file: File, kind: str, name: str, path: Sequence[str]) -> Edit:
    """Remove the setting or group under the keys `path` of a block, with the comment behind it.

    Comments above it stay. Raises LookupError when it is not there, or there twice.
    """
    page = _Page(file)
    entry: Entry | None = page.block(kind, name)
    for key in path:
        entry = _entry(entry.body, key) if entry is not None and entry.body is not None else None
    if entry is None:
        raise LookupError(f"{kind} {name} has no {' '.join(path)}")
    return page.removal(entry, entry.start)


def _written(keys: Sequence[str], value: str) -> str:
    """A setting within groups: `limits { body 1MB }`."""
    return f"{keys[0]} {value}" if len(keys) == 1 else f"{keys[0]} {{ {_written(keys[1:], value)} }}"


def _entry(body: Group, key: str) -> Entry | None:
    found = [row for row in body.rows if isinstance(row, Entry) and row.key.text == key]
    if len(found) > 1:
        raise LookupError(f"{key} is there {len(found)} times")
    return found[0] if found else None


def _touches(left: str, right: str) -> bool:
    """Whether two characters side by side could be read as one token."""
    return (
        all(letter.isalnum() or letter in "_-." or letter == '"' for letter in (left, right))
        if left and right
        else False
    )


class _Page:
    """One file's text, how it is laid out, and the edits of it by indexes into the text."""

    def __init__(self, file: File) -> None:
        if not file.readable:
            raise ValueError(f"{file.source.name} has a syntax error")
        self.source = file.source
        self.text = file.source.text or ""
        self.rows: list[Row] = layout(file)
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

    def body(self, block: Entry) -> Group:
        assert block.body is not None  # every block has one
        return block.body

    def replace(self, start: int, end: int, text: str) -> Edit:
        """Put another value there. No comma stands behind braces, so that one goes; and two words do not touch."""
        comma = _COMMA.match(self.text, end)
        before = " " if _touches(self.text[start - 1 : start], text[:1]) else ""
        after = " " if _touches(text[-1:], self.text[end : end + 1]) else ""
        return self.edit(start, comma.end() if comma and text.endswith("}") else end, f"{before}{text}{after}")

    def insertion(self, body: Group, key: str, rest: str, *, is_group: bool) -> Edit:
        """Add a setting, or a group, behind the last one of a body."""
        entries = [row for row in body.rows if isinstance(row, Entry)]
        settings = [entry for entry in entries if entry.value is not None]
        if not entries:
            return self._first(body, f"{key} {rest}")
        last = (entries if is_group or not settings else settings)[-1]
        at = last.end
        comma = _COMMA.match(self.text, at)
        at = comma.end() if comma else at
        if last.comment is not None:
            at = last.comment.end
        elif not _LINE_END.match(self.text, at):
            space = "" if self.text[at].isspace() else " "
            return self.edit(at, at, f" {key} {rest}{space}")
        pad = "" if is_group else " " * (self._column(last) - len(key) - 1)
        return self.edit(at, at, f"\n{self._indent(body, entries)}{key} {pad}{rest}")

    def _first(self, body: Group, setting: str) -> Edit:
        """Add the first setting of a body."""
        brace = body.end - 1
        if body.is_empty and "\n" not in self.text[body.start : body.end]:
            return self.edit(body.start + 1, brace, f" {setting} ")
        indent = self._indentation(body.start)
        if body.is_empty:
            return self.edit(body.start + 1, brace, f"\n{indent}{_INDENT}{setting}\n{indent}")
        line = self._line(brace)  # below a comment, so nothing else stands on it
        return self.edit(line, line, f"{indent}{_INDENT}{setting}\n")

    def _column(self, entry: Entry) -> int:
        """Where its value stands, in characters from its key; 0 when a new run begins below it."""
        if entry.value is None or "\n" in self.text[entry.start : entry.end]:
            return 0
        return entry.value.start - entry.start if "\t" not in self.text[entry.start : entry.value.start] else 0

    def _indent(self, body: Group, entries: Sequence[Entry]) -> str:
        """The indentation of a body's entries."""
        for entry in reversed(entries):
            if not self.text[self._line(entry.start) : entry.start].strip(" \t"):
                return self.text[self._line(entry.start) : entry.start]
        return self._indentation(body.start) + _INDENT

    def _indentation(self, at: int) -> str:
        blanks = _BLANKS.match(self.text, self._line(at))
        return blanks[0] if blanks else ""

    def _line(self, at: int) -> int:
        """Where the line begins that holds `at`."""
        return self.text.rfind("\n", 0, at) + 1

    def removal(self, entry: Entry, start: int) -> Edit:
        """Remove the lines from `start` to the end of an entry; only the entry where others share its lines."""
        comma = _COMMA.match(self.text, entry.end)
        end = comma.end() if comma else entry.end
        rest = _LINE_END.match(self.text, entry.comment.end if entry.comment else end)
        line = self._line(start)
        if rest and not self.text[line:start].strip(" \t") and self._begins_line(entry):
            return self._lines_removal(line, rest.end())
        if entry.comment is not None or _LINE_END.match(self.text, end):
            kept = self.text[: entry.start].rstrip(" \t")
            return self.edit(len(kept), end, "")
        blanks = _BLANKS.match(self.text, end)
        return self.edit(entry.start, blanks.end() if blanks else end, "")

    def _begins_line(self, entry: Entry) -> bool:
        return not self.text[self._line(entry.start) : entry.start].strip(" \t")

    def _lines_removal(self, start: int, end: int) -> Edit:
        """Remove whole lines, and the empty lines around them that would then be too many."""
        content = len(self.text[:start].rstrip(" \t\r\n"))
        above = self.text.find("\n", content) + 1 if content else 0
        blank = _BLANK_LINES.match(self.text, end)
        below = blank.end() if blank else end
        if above == 0 or below == len(self.text) or _CLOSING.match(self.text, below):
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
