"""Where in the structure a token stands: what is open, what was closed, what the current entry says so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lark import Token

from dslc.setting import Setting
from dslc.vocabulary import Settings, Vocabulary


class Frame(NamedTuple):
    """An open (or just closed) brace and the head before it; `column` of a head that is the first of its line."""

    brace: Token
    head: tuple[Token, ...]
    column: int | None


@dataclass
class ParserState:
    """The tokens that were read so far, walked once.

    `head`: the words of the current entry; one in a body means that its value is awaited. `lists`: open brackets.
    `closed`: the last brace that was closed, by `closing`. `at_line_start`: whether a line has just ended.
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
        return self.last is not None and self.last.type == "_NL"

    @property
    def expects_value(self) -> bool:
        """Whether a key of a setting stands without its value."""
        return bool(self.frames) and len(self.head) == 1 and not self.lists

    @property
    def expects_entry(self) -> bool:
        """Whether a setting could begin here."""
        return bool(self.frames) and len(self.head) != 1 and not self.lists

    def legal(self, above: int = 0) -> Settings:
        """The settings that may stand in the innermost body, or in the one `above` it so many levels."""
        depth = len(self.frames) - above
        if depth <= 0:
            return {}
        if depth not in self._legal:
            self._legal[depth] = self.vocabulary.at([_step(frame.head) for frame in self.frames[:depth]])
        return self._legal[depth] or {}

    def body_settings(self, head: list[Token]) -> Settings:
        """The settings of the body that `head` would open here."""
        path = [_step(frame.head) for frame in self.frames]
        return self.vocabulary.at([*path, _step(tuple(head))]) or {}

    def setting(self) -> Setting | None:
        """The setting whose value is awaited or was just given, when it is known."""
        return self.legal().get(self.head[0]) if self.frames and self.head else None

    def column(self, token: Token) -> int | None:
        """Characters before a token when it is the first of its line, else None."""
        at = token.start_pos or 0
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return None if before.strip(" \t") else len(before)

    def consume(self, token: Token) -> None:
        """Walk over one more token."""
        if token.type in {"LSQB", "RSQB"} or self.lists:
            self._take_in_list(token)
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

    def _take_in_list(self, token: Token) -> None:
        if token.type == "LSQB":
            self.lists.append(token)
        elif token.type == "RSQB" and self.lists:
            opened = self.lists.pop()
            if not self.lists:
                self.head.append(opened)


def _step(head: tuple[Token, ...]) -> tuple[str, str | None]:
    """A key of the way into a body, with its value."""
    if not head:
        return ("", None)
    return (str(head[0]), head[1].strip('"') if len(head) > 1 else None)
