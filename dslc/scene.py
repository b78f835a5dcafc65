"""Where in the structure a syntax error stands: what is open, what was closed, what the current entry says so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lark import Token


@dataclass(frozen=True, slots=True)
class Frame:
    """An open (or just closed) brace and the head before it."""

    brace: Token
    head: tuple[Token, ...]


@dataclass
class Scene:
    """The tokens up to the one that could not be read, walked once.

    `head`: the words of the entry that `bad` stands in; one in a body means that its value is awaited. `lists`: open
    brackets. `closed`: the last block that was closed. `breaks`: line ends directly before `bad`.
    """

    text: str
    bad: Token
    before: list[Token] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    head: list[Token] = field(default_factory=list)
    lists: list[Token] = field(default_factory=list)
    closed: Frame | None = None
    closing: Token | None = None
    breaks: int = 0

    @property
    def awaits_value(self) -> bool:
        """Whether a key of a setting stands without its value."""
        return bool(self.frames) and len(self.head) == 1 and not self.lists

    @property
    def path(self) -> list[tuple[str, str | None]]:
        """The keys that lead here, each with its value."""
        return [
            (str(frame.head[0]), frame.head[1].strip('"') if len(frame.head) > 1 else None)
            if frame.head
            else ("", None)
            for frame in self.frames
        ]

    def line_of(self, token: Token) -> int:
        """The number of a token's line, from 1."""
        return self.text.count("\n", 0, token.start_pos or 0) + 1

    def indentation(self, token: Token) -> int | None:
        """Columns before a token when it is the first of its line, else None."""
        at = token.start_pos or 0
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return None if before.strip(" \t") else len(before)

    def take(self, token: Token) -> None:
        """Walk over one more token."""
        if token.type in {"LSQB", "RSQB"} or self.lists:
            self._take_in_list(token)
        elif token.type == "LBRACE":
            self.frames.append(Frame(token, tuple(self.head)))
            self.head = []
        elif token.type == "RBRACE":
            self.closed, self.closing = (self.frames.pop() if self.frames else None), token
            self.head = []
        elif token.type == "_COMMA" or (token.type == "_NL" and len(self.head) > 1):
            self.head = []
        elif token.type != "_NL":
            self.head = [token] if len(self.head) > 1 else [*self.head, token]

    def _take_in_list(self, token: Token) -> None:
        if token.type == "LSQB":
            self.lists.append(token)
        elif token.type == "RSQB" and self.lists:
            opened = self.lists.pop()
            if not self.lists:
                self.head.append(opened)


def scene(text: str, tokens: Iterable[Token], bad: Token) -> Scene:
    """The scene of the unexpected token `bad`, out of all tokens of the text."""
    here = Scene(text, bad)
    for token in tokens:
        if (token.start_pos or 0) >= (bad.start_pos or 0) and bad.type != "$END":
            break
        here.take(token)
        here.breaks = here.breaks + 1 if token.type == "_NL" else 0
        here.before.append(token)
    return here
