"""The structure of a text that may be broken: what an author is typing in usually is.

Blocks, groups and settings are all entries: a key, perhaps a value, perhaps a body. What cannot be read is left out;
nothing is reported here. Positions are indexes into the text that was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias, cast

Kind = Literal["long", "string", "quoted", "word", "number"]

_TOKEN = re.compile(
    r'(?P<long>"""(?>(?:[^"\\]++|\\[\s\S]|"(?!""))*)(?:(?P<ended>""")|\\?\Z))'
    r'|(?P<string>"(?>(?:[^"\\\n]++|\\[^\n])*)(?P<closed>")?)'
    r"|(?P<quoted>'[^'\n]*+'?)"
    r"|(?P<comment>(?:#|//)[^\n]*+)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_-]*+)"
    r"|(?P<number>-?[0-9][A-Za-z0-9_.]*+)"
    r"|(?P<mark>[\n{}\[\],])"
)
_MOST = 200_000  # tokens; what comes behind so many in one piece is not looked at
_DEEPEST = 100  # levels of braces; deeper ones are not looked into


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number or string. `closed`: a string has its last quote."""

    kind: Kind
    text: str
    start: int
    end: int
    closed: bool = True

    @property
    def quotes(self) -> int:
        """How many characters of quotes stand on each side."""
        return 3 if self.kind == "long" else 1 if self.kind in {"string", "quoted"} else 0

    @property
    def inner(self) -> tuple[int, int]:
        """Where the text between the quotes begins and ends."""
        return self.start + self.quotes, max(self.end - (self.quotes if self.closed else 0), self.start + self.quotes)

    @property
    def content(self) -> str:
        """The text between the quotes, as it is written."""
        start, end = self.inner
        return self.text[start - self.start : end - self.start]


@dataclass(slots=True)
class List:
    """`[ … ]`; an inner list's items are its own."""

    start: int
    end: int
    items: list[Token | List] = field(default_factory=list)


@dataclass(slots=True)
class Body:
    """`{ … }`; its end is the text's when nothing closes it."""

    start: int
    end: int
    closed: bool = False
    entries: list[Entry] = field(default_factory=list)


Value: TypeAlias = "Token | List"


@dataclass(slots=True)
class Entry:
    """`key`, `key value`, `key { … }` or `key value { … }`; at the top level a block: kind, name and body."""

    key: Token
    value: Value | None = None
    body: Body | None = None

    @property
    def start(self) -> int:
        return self.key.start

    @property
    def end(self) -> int:
        return (self.body or self.value or self.key).end

    @property
    def word(self) -> str | None:
        """The value when it is one token, without quotes."""
        return self.value.content if isinstance(self.value, Token) else None


@dataclass(slots=True)
class Outline:
    """`root` is the body of the whole text. `comments`: start and end of each. `lists`: those without an entry too."""

    root: Body
    comments: list[tuple[int, int]] = field(default_factory=list)
    long: list[Token] = field(default_factory=list)
    lists: list[List] = field(default_factory=list)

    def bodies(self) -> Iterator[tuple[Entry, Body]]:
        """Every body with its entry, outer ones first."""
        waiting = list(reversed(self.root.entries))
        while waiting:
            entry = waiting.pop()
            if entry.body is not None:
                yield entry, entry.body
                waiting += reversed(entry.body.entries)


@lru_cache(maxsize=16_384)
def outline(text: str) -> Outline:
    """The outline of a text: of one piece, usually. It is shared: nobody changes it."""
    walk = _Walk(text)
    for count, match in enumerate(_TOKEN.finditer(text)):
        if count > _MOST:
            break
        walk.take(match)
    return walk.done


class _Walk:
    def __init__(self, text: str) -> None:
        self.done = Outline(Body(0, len(text)))
        self._end = len(text)
        self._bodies = [self.done.root]
        self._lists: list[List] = []
        self._entry: Entry | None = None
        self._before: Entry | None = None  # the entry of the line before, whose `{` may stand on this one
        self._deeper = 0

    def take(self, match: re.Match[str]) -> None:
        if match.lastgroup == "mark":
            self._mark(match[0], match.start())
        elif match.lastgroup == "comment":
            self.done.comments.append((match.start(), match.start() + len(match[0].rstrip("\r"))))
        else:
            token = _token(match)
            if not self._deeper:
                self._token(token)
            # `"/hooks }`: a brace behind a string without its last quote was meant to close a block.
            for at in range(token.end, match.end() if "{" not in match[0] else 0):
                if match.string[at] == "}":
                    self._close(at)

    def _token(self, token: Token) -> None:
        if token.kind == "long":
            self.done.long.append(token)
        if self._lists:
            self._lists[-1].items.append(token)
        elif self._entry is not None and self._entry.value is None:
            self._entry.value = token
        elif token.kind == "word":
            self._entry = self._before = Entry(token)
            self._bodies[-1].entries.append(self._entry)

    def _mark(self, mark: str, at: int) -> None:
        if mark == "{":
            self._open(at)
        elif mark == "}":
            self._close(at)
        elif self._deeper:
            return
        elif mark == "[":
            self._list(at)
        elif mark == "]" and self._lists:
            self._lists.pop().end = at + 1
        elif not self._lists:  # a line's end, or a comma
            self._entry = None

    def _list(self, at: int) -> None:
        opened = List(at, self._end)
        if self._lists:
            self._lists[-1].items.append(opened)
        elif self._entry is not None and self._entry.value is None:
            self._entry.value = opened
        self.done.lists.append(opened)
        self._lists.append(opened)

    def _open(self, at: int) -> None:
        if self._deeper or len(self._bodies) > _DEEPEST:
            self._deeper += 1
            return
        self._end_lists(at)
        entry = self._entry or self._before
        if entry is None or entry.body is not None:
            entry = Entry(Token("word", "", at, at))
            self._bodies[-1].entries.append(entry)
        entry.body = Body(at, self._end)
        self._bodies.append(entry.body)
        self._entry = self._before = None

    def _close(self, at: int) -> None:
        if self._deeper:
            self._deeper -= 1
            return
        self._end_lists(at)
        if len(self._bodies) > 1:
            body = self._bodies.pop()
            body.end, body.closed = at + 1, True
        self._entry = self._before = None

    def _end_lists(self, at: int) -> None:
        for opened in self._lists:
            opened.end = at
        self._lists.clear()


def _token(match: re.Match[str]) -> Token:
    kind, text, start = cast("Kind", match.lastgroup), match[0], match.start()
    if kind == "string" and match["closed"] is None:
        text = text.rstrip(" \t\r}")
        return Token(kind, text, start, start + len(text), closed=False)
    closed = match["ended"] is not None if kind == "long" else kind != "quoted" or (len(text) > 1 and text[-1] == "'")
    return Token(kind, text, start, match.end(), closed)
