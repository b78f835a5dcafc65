"""Tolerant reader: splits any text into entries, values and comments without validating it.

The formatter, edits and the language server read programs with it; the parser decides which programs are valid. For a
text without a syntax error the tree contains every token. For any other text, tokens that fit nowhere are left out, and
unclosed parts end where the text or the enclosing body ends. Blocks, groups and settings have one shape, an `Entry`: a
word or string, an optional value or name, an optional body. Positions are indexes into the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from dslc.syntax.tokens import scan

_MAX_DEPTH = 100  # levels of braces; deeper levels are skipped


@dataclass(slots=True, eq=False)
class TextNode:
    """Part of a text. `gap`: an empty line precedes it. `comment`: the comment that follows on its last line."""

    gap: bool = field(default=False, init=False)
    comment: Comment | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Comment(TextNode):
    """A comment without trailing blanks."""

    start: int
    end: int
    text: str


@dataclass(slots=True, eq=False)
class Verbatim(TextNode):
    """Part of the top level that is not parsed. `foreign`: a block of the wider language."""

    start: int
    end: int
    text: str
    foreign: bool


@dataclass(slots=True, eq=False)
class Atom(TextNode):
    """A word, number or string. `kind`: type of its token. An unclosed string ends before trailing blanks and `}`."""

    start: int
    end: int
    text: str
    kind: str

    @property
    def closed(self) -> bool:
        """False for a string without its closing quote."""
        if self.kind == "SINGLE_QUOTED":
            return len(self.text) > 1 and self.text[-1] == "'"
        return not self.kind.startswith("UNCLOSED")

    @property
    def quotes(self) -> int:
        """Number of quote characters on each side."""
        return 3 if "LONG" in self.kind else 0 if self.kind in {"WORD", "NUMBER"} else 1

    @property
    def inner(self) -> tuple[int, int]:
        """Start and end of the text between the quotes."""
        return self.start + self.quotes, max(self.end - (self.quotes if self.closed else 0), self.start + self.quotes)

    @property
    def content(self) -> str:
        """The text between the quotes, with its escapes as written."""
        start, end = self.inner
        return self.text[start - self.start : end - self.start]

    @property
    def width(self) -> int | None:
        """Number of characters; None if it spans lines."""
        return None if self.kind == "LONG_STRING" and "\n" in self.text else self.end - self.start


@dataclass(slots=True, eq=False)
class Group(TextNode):
    """A body (`brackets` is `{}`) or a list (`[]`).

    `rows`: entries or values, and comments on their own lines. `opening`: the comment after the opening bracket.
    `flat`: written on one line.
    """

    start: int
    end: int
    brackets: str
    rows: list[TextRow] = field(default_factory=list)
    opening: Comment | None = None
    closed: bool = False
    flat: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.rows and self.opening is None

    @property
    def entries(self) -> list[Entry]:
        """The entries of a body."""
        return [row for row in self.rows if isinstance(row, Entry)]

    @property
    def items(self) -> list[Atom]:
        """The values of a list, without nested lists."""
        return [row for row in self.rows if isinstance(row, Atom)]

    @property
    def width(self) -> int | None:
        """Number of characters in canonical form on one line; None if it spans lines and is not empty."""
        if self.is_empty:
            return 2
        between, around = (2, 2) if self.brackets == "[]" else (1, 4)
        return _sum(around + between * (len(self.rows) - 1), *map(_width, self.rows)) if self.flat else None


@dataclass(slots=True, eq=False)
class Entry(TextNode):
    """`key`, `key value`, `key value { … }` or `key { … }`. For a block, the key is its kind and the value its name.
    A key may be a string."""

    key: Atom
    value: Value | None = None
    body: Group | None = None

    @property
    def start(self) -> int:
        return self.key.start

    @property
    def end(self) -> int:
        return (self.body or self.value or self.key).end

    @property
    def word(self) -> str | None:
        """The value without quotes, if it is one token."""
        return self.value.content if isinstance(self.value, Atom) else None

    @property
    def width(self) -> int | None:
        """Number of characters in canonical form on one line; None if a part spans lines."""
        parts = [part.width for part in (self.key, self.value, self.body) if part is not None]
        return _sum(len(parts) - 1, *parts)


Value: TypeAlias = Atom | Group
TextRow: TypeAlias = Entry | Atom | Group | Comment | Verbatim


@dataclass(slots=True, eq=False)
class EntryTree:
    """The result of `read_entries`. `root`: the body of the whole text. `comments`: start and end of each, with
    trailing blanks.

    `long`: the long strings. `lists`: all lists, including those that belong to no entry.
    """

    root: Group
    comments: list[tuple[int, int]] = field(default_factory=list)
    long: list[Atom] = field(default_factory=list)
    lists: list[Group] = field(default_factory=list)

    def bodies(self) -> Iterator[tuple[Entry, Group]]:
        """Yield every body with its entry, outer bodies first."""
        waiting = self.root.entries[::-1]
        while waiting:
            entry = waiting.pop()
            if entry.body is not None:
                yield entry, entry.body
                waiting += entry.body.entries[::-1]


def read_entries(text: str, verbatim: Sequence[tuple[int, int]] = (), most: int | None = None) -> EntryTree:
    """Read the entries of a text.

    `verbatim`: (start, end) of top-level parts that are copied without parsing. `most`: maximum number of tokens read
    of each part between them.
    """
    reader, at = _Reader(text), 0
    for start, end in verbatim:
        reader.read(islice(scan(text, at, start), most))
        reader.verbatim(start, end)
        at = end
    reader.read(islice(scan(text, at), most))
    return reader.tree


class _Reader:
    """State of `read_entries`: open groups, the current entry and pending blank lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.tree = EntryTree(Group(0, len(text), "{}"))
        self._open = [self.tree.root]
        self._entry: Entry | None = None  # of this line, while a value or body may follow
        self._before: Entry | None = None  # of the previous line; its `{` may be on this line
        self._skipped_levels = 0
        self._lines = 0  # line ends since the last token
        self._gap = False
        self._own_line = True

    def read(self, tokens: Iterator[re.Match[str]]) -> None:
        for match in tokens:
            kind = match.lastgroup
            if kind == "BLANK":
                continue
            if kind == "_NL":
                self._lines += 1
                self._gap = self._gap or self._lines > 1
                self._own_line = True
                self._end_entry()
                continue
            self._lines = 0
            if kind == "COMMENT":
                self._comment(match)
            elif kind in {"LBRACE", "RBRACE"}:
                self._brace(match.start(), opens=kind == "LBRACE")
            elif kind in {"SIGN", "JUNK"} or self._skipped_levels:
                pass
            elif kind == "_COMMA":
                self._end_entry()
            elif kind in {"LSQB", "RSQB"}:
                self._bracket(match.start(), opens=kind == "LSQB")
            else:
                self._atom(match, kind or "")
            if kind == "UNCLOSED_STRING":
                self._close_in(match)

    def verbatim(self, start: int, end: int) -> None:
        self._lines, self._entry = 0, None
        self._add(Verbatim(start, end, self._text[start:end], foreign=True))

    def _add(self, row: TextRow) -> None:
        row.gap = self._gap
        self._open[-1].rows.append(row)
        self._begin()

    def _begin(self) -> None:
        self._gap = self._own_line = False

    def _end_entry(self) -> None:
        if self._open[-1].brackets == "{}":
            self._entry = None

    def _atom(self, match: re.Match[str], kind: str) -> None:
        text = match[0].rstrip(" \t\r}") if kind == "UNCLOSED_STRING" else match[0]
        atom = Atom(match.start(), match.start() + len(text), text, kind)
        if "LONG" in kind:
            self.tree.long.append(atom)
        if self._open[-1].brackets == "[]":
            self._add(atom)
        elif self._entry is not None and self._entry.value is None:
            self._entry.value = atom
        elif kind == "WORD" or (kind == "STRING" and len(self._open) > 1):  # blocks have no kind in quotes
            self._entry = self._before = Entry(atom)
            self._add(self._entry)

    def _close_in(self, match: re.Match[str]) -> None:
        """Close the bodies whose `}` an unclosed string contains, as in `"/hooks }`."""
        if "{" not in match[0]:
            bare = match[0].rstrip(" \t\r}")
            for at in range(match.start() + len(bare), match.end()):
                if self._text[at] == "}":
                    self._brace(at, opens=False)

    def _comment(self, match: re.Match[str]) -> None:
        start, group, text = match.start(), self._open[-1], match[0].rstrip(" \t\r")
        self.tree.comments.append((start, start + len(match[0].rstrip("\r"))))
        if self._skipped_levels:
            return
        comment = Comment(start, start + len(text), text)
        last = group.rows[-1] if group.rows else None
        if self._own_line or isinstance(last, Comment):
            self._add(comment)
        elif last is not None:
            last.comment = comment
        else:
            group.opening = comment

    def _bracket(self, at: int, *, opens: bool) -> None:
        group = self._open[-1]
        if not opens:
            if group.brackets == "[]":
                self._close(at)
            self._end_entry()
            return
        inner = Group(at, len(self._text), "[]")
        self.tree.lists.append(inner)
        if group.brackets == "[]":
            self._add(inner)
        elif self._entry is not None and self._entry.value is None:
            self._entry.value = inner
        self._open.append(inner)
        self._begin()

    def _brace(self, at: int, *, opens: bool) -> None:
        while self._open[-1].brackets == "[]":
            self._open.pop().end = at
        if self._skipped_levels or (opens and len(self._open) > _MAX_DEPTH):
            self._skipped_levels += 1 if opens else -1
            return
        if opens:
            entry = self._entry or self._before
            if entry is None or entry.body is not None:
                entry = Entry(Atom(at, at, "", "WORD"))
                self._add(entry)
            entry.body = Group(at, len(self._text), "{}")
            self._open.append(entry.body)
            self._begin()
        elif len(self._open) > 1:
            self._close(at)
        self._entry = self._before = None

    def _close(self, at: int) -> None:
        group = self._open.pop()
        group.end, group.closed = at + 1, True
        group.flat = self._text.find("\n", group.start, at) < 0
        self._begin()


def _width(row: TextRow) -> int | None:
    return None if isinstance(row, Comment | Verbatim) else row.width


def _sum(*widths: int | None) -> int | None:
    total = 0
    for width in widths:
        if width is None:
            return None
        total += width
    return total
