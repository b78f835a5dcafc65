"""Canonical form of a text, as `dslc fmt` writes it.

- Four spaces per level; one empty line between blocks, at most one between settings, none at the start or end of a
  body.
- The values of a run of settings are aligned in one column. A run consists of settings on consecutive lines; it ends
  before an empty line, a comment on its own line or a group, and after a setting that takes several lines. A key of
  more than 40 characters is not part of a run.
- A body or list that was written on one line stays on one line if the line has at most 100 characters; otherwise each
  setting or item has its own line. No commas between settings; a comma between items, and after the last item if each
  has its own line.
- A comment after other text stays on that line, after one space; a comment on its own line stays on its own line.
- The text of a multi-line string is indented one level below its setting; its value does not change.
- A quoted key is written without quotes if it is a word.
- Blocks of the wider language do not change. Line endings become those of most lines.
- A block does not change if an `allow` comment would apply to other tokens than before.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from dslc.check.allow import ALLOW_COMMENT
from dslc.parse import File
from dslc.syntax.reader import Atom, Comment, Entry, Group, TextRow, Value, Verbatim, read_entries
from dslc.syntax.tokens import WORD, scan
from dslc.syntax.tree import ForeignNode
from dslc.value_reading.string_literals import dedent

WIDEST = 100  # characters of a body or list on one line
_LONGEST_KEY = 40  # characters of a key that is part of a run
_INDENT = 4
_WORD = re.compile(WORD)
_COUNTED = {"WORD", "NUMBER", "STRING", "LONG_STRING", "LSQB"}  # tokens that diagnostics are about, without commas
_Places = Sequence[tuple[int, int]]


def format_file(file: File) -> str:
    """Text of a file in canonical form, without a byte-order mark. The file must not have syntax errors."""
    return canonical(file.source.text or "", _foreign(file))


def layout(file: File) -> list[TextRow]:
    """Layout rows of a file, which must not have syntax errors."""
    return read_entries(file.source.text or "", _foreign(file)).root.rows


def line_end(file: File) -> str:
    """Line ending of most of a file's lines."""
    return _line_end(file.source.text or "", _foreign(file))


def _foreign(file: File) -> _Places:
    """Ranges of the blocks of the wider language."""
    nodes = ((section.start, node) for section in file.sections for node in section.blocks)
    return [(at + node.start_pos, at + node.last_pos) for at, node in nodes if isinstance(node, ForeignNode)]


def canonical(text: str, verbatim: _Places = ()) -> str:
    """Canonical form of a text without syntax errors. `verbatim`: ranges of blocks of the wider language."""
    tree = read_entries(text, verbatim)
    for _, body in tree.bodies():
        for entry in body.entries:
            entry.key = _bare(entry.key)
    rows = tree.root.rows
    if ALLOW_COMMENT.search(text):
        rows = [row for together in _row_groups(rows, text) for row in _protect_allowed(together, text)]
    return _print(rows, _line_end(text, verbatim))


def _bare(key: Atom) -> Atom:
    """Return a key without its quotes, if it is a word."""
    if key.kind == "STRING" and _WORD.fullmatch(key.content):
        return Atom(key.start, key.end - 2, key.content, "WORD")
    return key


def _line_end(text: str, verbatim: _Places) -> str:
    """Line ending of most lines, not counting the lines in `verbatim`."""
    lines = text.count("\n") - sum(text.count("\n", start, end) for start, end in verbatim)
    returns = text.count("\r\n") - sum(text.count("\r\n", start, end) for start, end in verbatim)
    return "\r\n" if (returns * 2 > lines if lines else "\r\n" in text) else "\n"


def _row_groups(rows: Sequence[TextRow], text: str) -> list[list[TextRow]]:
    """Group the rows of a file: rows on the same line, and comments with the row below."""
    found: list[list[TextRow]] = []
    for row in rows:
        above = found[-1][-1] if found else None
        if above is None or not (isinstance(above, Comment) or "\n" not in text[above.end : row.start]):
            found.append([])
        found[-1].append(row)
    return found


def _protect_allowed(rows: list[TextRow], text: str) -> list[TextRow]:
    """Return the rows, with blocks verbatim if an `allow` comment would apply to other tokens than before."""
    last = rows[-1].comment or rows[-1]
    if _allowed_tokens(text[rows[0].start : last.end]) == _allowed_tokens(_print(rows, "\n")):
        return rows
    found: list[TextRow] = []
    whole: Verbatim | None = None  # of entries that share a line
    for row in rows:
        if not isinstance(row, Entry):
            whole = None
            found.append(row)
        elif whole is not None and "\n" not in text[whole.end : row.start]:
            whole.end, whole.comment = row.end, row.comment
        else:
            whole = Verbatim(row.start, row.end, "", foreign=False)
            whole.gap, whole.comment = row.gap, row.comment
            found.append(whole)
        if whole is not None:
            whole.text = text[whole.start : whole.end].replace("\r\n", "\n")
    return found


def _allowed_tokens(text: str) -> list[tuple[int, int]]:
    """Return, for each `allow` comment, the range of the numbers of the tokens it applies to: those of its line, or of
    the next line with a token if no token precedes it on its line."""
    about: list[int] = []  # lines
    lines: list[int] = []  # of the tokens
    line = waiting = 0
    alone = True
    for token in scan(text):
        if token.lastgroup == "COMMENT":
            if ALLOW_COMMENT.match(token[0]) and alone:
                waiting += 1
            elif ALLOW_COMMENT.match(token[0]):
                about.append(line)
        elif token.lastgroup == "_NL":
            line, alone = line + 1, True
        elif token.lastgroup != "BLANK":
            about += [line] * waiting
            waiting, alone = 0, False
            if token.lastgroup in _COUNTED:
                lines.append(line)
            line += token[0].count("\n")
    return [(bisect_left(lines, at), bisect_left(lines, at + 1)) for at in (*about, *[line + 1] * waiting)]


def _print(rows: Sequence[TextRow], line_end: str) -> str:
    """Format the rows of a file."""
    printer = _Printer(line_end)
    for number, row in enumerate(rows):
        if number and (row.gap or _needs_gap(rows[number - 1], row)):
            printer.out.append(line_end)
        printer.row(row, 0, 0)
    return "".join(printer.out)


def _needs_gap(above: TextRow, below: TextRow) -> bool:
    """True if an empty line belongs between two rows of a file, even if none is written."""
    # A comment belongs to the row below it; aliases of the wider language form groups.
    return not isinstance(above, Comment) and not (_is_foreign(above) and _is_foreign(below))


def _is_foreign(row: TextRow) -> bool:
    return isinstance(row, Verbatim) and row.foreign


class _Printer:
    def __init__(self, line_end: str) -> None:
        self.out: list[str] = []
        self._line_end = line_end

    def row(self, row: TextRow, indent: int, column: int) -> None:
        """Write a row, its comment and a line end. A setting's value is written `column` characters after the start of
        its key, or further right if the key is longer."""
        self.out.append(" " * indent)
        match row:
            case Entry():
                self._entry(row, indent, column)
            case Comment():
                self.out.append(row.text)
            case Verbatim():
                self.out.append(row.text if row.foreign else row.text.replace("\n", self._line_end))
            case Atom() | Group():
                self._value(row, indent, flat=_fits(row, indent + 1))
                self.out.append(",")
        if row.comment is not None:
            self.out.append(f" {row.comment.text}")
        self.out.append(self._line_end)

    def _entry(self, entry: Entry, indent: int, column: int) -> None:
        key = entry.key.text
        self.out.append(key)
        flat_value, flat_body = _flat_parts(entry, indent)
        if entry.value is not None:
            self.out.append(" " * max(column - len(key), 1))
            self._value(entry.value, indent, flat=flat_value)
        if entry.body is not None:
            self.out.append(" ")
            self._value(entry.body, indent, flat=flat_body)

    def _value(self, value: Value, indent: int, *, flat: bool) -> None:
        if flat:
            self._flat(value)
        elif isinstance(value, Group):
            self._expand(value, indent)
        else:
            self._long_string(value, indent + _INDENT)

    def _expand(self, group: Group, indent: int) -> None:
        """Write a group with each row on its own line."""
        self.out.append(group.brackets[0])
        if group.opening is not None:
            self.out.append(f" {group.opening.text}")
        self.out.append(self._line_end)
        columns = _columns(group.rows, indent + _INDENT)
        for at, row in enumerate(group.rows):
            if at and row.gap:
                self.out.append(self._line_end)
            self.row(row, indent + _INDENT, columns[at])
        self.out.append(" " * indent + group.brackets[1])

    def _flat(self, node: TextRow) -> None:
        """Write a node on one line."""
        match node:
            case Atom():
                self.out.append(node.text)
            case Entry():
                for part in (node.key, node.value, node.body):
                    if part is not None:
                        self.out.append(" " if part is not node.key else "")
                        self._flat(part)
            case Group(rows=[]):
                self.out.append(node.brackets)
            case Group():
                opening, between, closing = ("[", ", ", "]") if node.brackets == "[]" else ("{ ", " ", " }")
                for at, row in enumerate(node.rows):
                    self.out.append(between if at else opening)
                    self._flat(row)
                self.out.append(closing)

    def _long_string(self, token: Atom, indent: int) -> None:
        margin = " " * indent
        text = dedent(token.text[3:-3])
        lines = [margin + line if line else "" for line in text.split("\n")] if text else []
        self.out.append(self._line_end.join(['"""', *lines, f'{margin}"""']))


def _flat_parts(entry: Entry, indent: int) -> tuple[bool, bool]:
    """Return two flags: the value, and the body, fit on the line of the entry's key."""
    used, value, body = indent + len(entry.key.text) + 1, entry.value, entry.body
    flat = value is None or _fits(value, used + (2 if body else 0))
    if body is None:
        return flat, True
    width = 0 if value is None else (value.width or 0) + 1
    return flat, flat and _fits(body, used + width)


def _fits(node: Value, used: int) -> bool:
    """True if the value fits on one line together with `used` other characters."""
    if isinstance(node, Atom) or node.is_empty:  # nothing to break
        return node.width is not None
    return node.width is not None and used + node.width <= WIDEST


def _columns(rows: Sequence[TextRow], indent: int) -> list[int]:
    """Column of the values of each row's run, in characters from the start of the key."""
    columns, run = [0] * len(rows), 0  # run: where it began
    widest = 0

    def end(at: int) -> None:
        nonlocal run, widest
        columns[run:at] = [widest] * (at - run)
        run, widest = at, 0

    for at, row in enumerate(rows):
        aligns = isinstance(row, Entry) and row.value is not None and len(row.key.text) <= _LONGEST_KEY
        if row.gap or not aligns:
            end(at)
        if aligns:
            assert isinstance(row, Entry)
            widest = max(widest, len(row.key.text) + 1)
            if not all(_flat_parts(row, indent)):
                end(at + 1)
    end(len(rows))
    return columns
