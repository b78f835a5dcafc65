"""How a text that can be read is laid out: its blocks, settings, values and comments, and the empty lines between.

What the formatter prints again and edits measure. A block, a group, a setting and a setting with options have one
shape here, an `Entry`: a word, perhaps a value or name, perhaps a body. Places are indexes into the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

_TOKEN = re.compile(
    r"[ \t\r]*+(?:(?P<line>\n[ \t\r\n]*+)"
    r"|(?P<comment>(?:#|//)[^\n]*+)"
    r'|(?P<long>"""(?>(?:[^"\\]++|\\[\s\S]|"(?!""))*)""")'
    r'|(?P<string>"(?>(?:[^"\\\n]++|\\[^\n])*)")'
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_-]*+)"
    r"|(?P<number>-?[0-9][A-Za-z0-9_.]*+)"
    r"|(?P<mark>[{}\[\],])"
    r"|\Z)"
)


@dataclass(slots=True, eq=False)
class Node:
    """`text[start:end]`. `gap`: an empty line stands above it. `comment`: the one that follows on its last line."""

    start: int
    end: int
    gap: bool = field(default=False, init=False)
    comment: Comment | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Comment(Node):
    """A comment, without the blanks at its end."""

    text: str


@dataclass(slots=True, eq=False)
class Verbatim(Node):
    """A stretch at the top level that is not looked into. `foreign`: it is a block of the wider language."""

    text: str
    foreign: bool


@dataclass(slots=True, eq=False)
class Atom(Node):
    """A word, number or string. `width`: its characters when it is written on one line, else None."""

    text: str
    width: int | None


@dataclass(slots=True, eq=False)
class Group(Node):
    """What stands in `brackets`, `{}` or `[]`.

    `rows`: entries or values, and comments that have a line of their own. `opening`: the comment behind the bracket.
    `width`: its characters in canonical form on one line, when it was written on one line or holds nothing, else None.
    """

    brackets: str
    rows: list[Row]
    opening: Comment | None
    width: int | None

    @property
    def is_empty(self) -> bool:
        return not self.rows and self.opening is None


@dataclass(slots=True, eq=False)
class Entry(Node):
    """`key`, `key value`, `key value { … }` or `key { … }`; a block's kind is its key and its name its value.

    `width`: its characters in canonical form on one line, None when a part of it takes several.
    """

    key: Atom
    value: Value | None
    body: Group | None
    width: int | None


Value: TypeAlias = Atom | Group
Row: TypeAlias = Entry | Atom | Group | Comment | Verbatim


def read(text: str, verbatim: Sequence[tuple[int, int]] = ()) -> list[Row]:
    """The rows of a whole text that has no syntax error. `verbatim`: stretches at the top level to take as they are."""
    return _Reader(text, verbatim).read()


class _Reader:
    def __init__(self, text: str, verbatim: Sequence[tuple[int, int]]) -> None:
        self._text = text
        self._tokens: list[tuple[str, int, int]] = []
        self._at = 0
        at = 0
        for start, end in verbatim:
            self._cut(at, start)
            self._tokens.append(("verbatim", start, end))
            at = end
        self._cut(at, len(text))
        self._tokens.append(("end", len(text), len(text)))

    def _cut(self, at: int, end: int) -> None:
        match, add = _TOKEN.match, self._tokens.append
        while at < end:
            token = match(self._text, at, end)
            if token is None:
                raise ValueError(f"not a token at {at}")
            kind = token.lastgroup
            if kind is None:
                return
            at = token.end()
            add((self._text[at - 1] if kind == "mark" else kind, token.start(kind), at))

    def read(self) -> list[Row]:
        return self._rows("end", Group(0, 0, "", [], None, None), own_line=True)

    def _rows(self, closing: str, group: Group, *, own_line: bool = False) -> list[Row]:
        """The rows up to the token `closing`, which is left to read. `own_line`: a comment here has its own line."""
        rows, gap = group.rows, False
        while (token := self._tokens[self._at])[0] != closing:
            kind, start, end = token
            if kind in {"line", ","}:
                if kind == "line":
                    gap, own_line = gap or self._text.count("\n", start, end) > 1, True
                self._at += 1
                continue
            if kind == "comment":
                comment = self._comment(start, end)
                if own_line or not self._beside(rows, group, comment):
                    comment.gap = gap
                    rows.append(comment)
            else:
                row = self._value() if closing == "]" else self._entry()
                row.gap = gap
                rows.append(row)
            gap = own_line = False
        return rows

    def _comment(self, start: int, end: int) -> Comment:
        self._at += 1
        text = self._text[start:end].rstrip(" \t\r")
        return Comment(start, start + len(text), text)

    def _beside(self, rows: list[Row], group: Group, comment: Comment) -> bool:
        """Put a comment to what stands before it on its line."""
        if not rows:
            group.opening = comment
            return True
        if isinstance(rows[-1], Comment) or rows[-1].comment is not None:
            return False
        rows[-1].comment = comment
        return True

    def _entry(self) -> Entry | Verbatim:
        kind, start, end = self._tokens[self._at]
        if kind == "verbatim":
            self._at += 1
            return Verbatim(start, end, self._text[start:end], foreign=True)
        key = self._atom()
        width = key.width
        value = body = None
        if self._tokens[self._at][0] not in {"{", "line", "end"}:
            value = self._value()
            width = _sum(width, 1, value.width)
        if self._tokens[self._at][0] == "{":
            body = self._group("{}")
            width = _sum(width, 1, body.width)
        return Entry(start, (body or value or key).end, key, value, body, width)

    def _value(self) -> Value:
        return self._group("[]") if self._tokens[self._at][0] == "[" else self._atom()

    def _atom(self) -> Atom:
        kind, start, end = self._tokens[self._at]
        self._at += 1
        text = self._text[start:end]
        return Atom(start, end, text, None if kind == "long" and "\n" in text else end - start)

    def _group(self, brackets: str) -> Group:
        _, start, opened = self._tokens[self._at]
        self._at += 1
        group = Group(start, opened, brackets, [], None, None)
        rows = self._rows(brackets[1], group)
        group.end = self._tokens[self._at][2]
        self._at += 1
        if group.is_empty:
            group.width = 2
        elif self._text.find("\n", start, group.end) < 0:
            between, around = (2, 2) if brackets == "[]" else (1, 4)
            group.width = _sum(around + between * (len(rows) - 1), *(_width(row) for row in rows))
        return group


def _width(row: Row) -> int | None:
    return None if isinstance(row, Comment | Verbatim) else row.width


def _sum(*widths: int | None) -> int | None:
    total = 0
    for width in widths:
        if width is None:
            return None
        total += width
    return total
