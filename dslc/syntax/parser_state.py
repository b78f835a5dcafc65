"""State of the parser at a token: open bodies, the last closed body, the words of the current entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lark import Token

from dslc.setting import Setting
from dslc.vocabulary import MapSettings, Settings, Vocabulary


class Frame(NamedTuple):
    """An open or just closed body: its opening brace and the head before it. `column`: of the head, if it begins its
    line."""

    brace: Token
    head: tuple[Token, ...]
    column: int | None


@dataclass
class ParserState:
    """State after the tokens read so far; each token is processed once.

    `head`: the words of the current entry; in a body, a single word means that its value is expected. `lists`: open
    brackets. `closed`: the last closed body, and `closing` its `}`.
    """

    text: str
    vocabulary: Vocabulary
    frames: list[Frame] = field(default_factory=list)
    head: list[Token] = field(default_factory=list)
    lists: list[Token] = field(default_factory=list)
    closed: Frame | None = None
    closing: Token | None = None
    last: Token | None = None
    _legal: dict[int, Settings | None] = field(default_factory=dict)

    @property
    def at_line_start(self) -> bool:
        """True if the last token was a line end."""
        return self.last is not None and self.last.type == "_NL"

    @property
    def expects_value(self) -> bool:
        """True if a setting's key has been read and its value is expected."""
        return bool(self.frames) and len(self.head) == 1 and not self.lists

    @property
    def expects_entry(self) -> bool:
        """True if a setting may begin here."""
        return bool(self.frames) and len(self.head) != 1 and not self.lists

    @property
    def in_map(self) -> bool:
        """True in the body of a map, where any word may be a key."""
        return isinstance(self._body(), MapSettings)

    @property
    def takes_strings(self) -> bool:
        """True in the body of a map, and of an unknown group: a key may be a string there."""
        return self.in_map or self._body() is None

    def legal(self, above: int = 0) -> Settings:
        """Settings allowed in the innermost body, or in the body `above` levels further out."""
        return self._body(above) or {}

    def _body(self, above: int = 0) -> Settings | None:
        """The result of `legal`, or None for an unknown body."""
        depth = len(self.frames) - above
        if depth <= 0:
            return {}
        if depth not in self._legal:
            self._legal[depth] = self.vocabulary.at([_step(frame.head) for frame in self.frames[:depth]])
        return self._legal[depth]

    def body_settings(self, head: list[Token]) -> Settings:
        """Settings allowed in the body that `head` would open here."""
        path = [_step(frame.head) for frame in self.frames]
        return self.vocabulary.at([*path, _step(tuple(head))]) or {}

    def setting(self) -> Setting | None:
        """The setting whose value is expected or was just read; None if it is unknown."""
        return self.legal().get(_key(self.head[0])) if self.frames and self.head else None

    def column(self, token: Token) -> int | None:
        """Number of characters before a token that is the first of its line, else None."""
        at = token.start_pos or 0
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return None if before.strip(" \t") else len(before)

    def consume(self, token: Token) -> None:
        """Update the state with the next token."""
        if token.type in {"LSQB", "RSQB"} or self.lists:
            self._consume_in_list(token)
        elif token.type == "LBRACE":
            column = self.column(self.head[0]) if self.head else None
            self.frames.append(Frame(token, tuple(self.head), column))
            self.head = []
        elif token.type == "RBRACE":
            self._legal.pop(len(self.frames), None)
            self.closed, self.closing = (self.frames.pop() if self.frames else None), token
            self.head = []
        elif token.type == "_COMMA" or (token.type == "_NL" and len(self.head) > 1):
            self.head = []
        elif token.type != "_NL":
            self.head = [token] if len(self.head) > 1 and self.frames else [*self.head, token]
        self.last = token

    def _consume_in_list(self, token: Token) -> None:
        if token.type == "LSQB":
            self.lists.append(token)
        elif token.type == "RSQB" and self.lists:
            opened = self.lists.pop()
            if not self.lists:
                self.head.append(opened)


def _step(head: tuple[Token, ...]) -> tuple[str, str | None]:
    """A key and its value, as one step of the path to a body."""
    if not head:
        return ("", None)
    return (_key(head[0]), head[1].strip('"') if len(head) > 1 else None)


def _key(token: Token) -> str:
    """A key without quotes."""
    return token.strip('"')
