"""Syntax tree of a file, without knowledge of block kinds and settings.

Each node has its position as indexes into the text of its section: `start_pos` and `end_pos`. Words and scalar values
are lark tokens: strings with a position and a `type`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from lark import Token


class MissingToken(Token):
    """Placeholder for a value or name that is missing or unreadable; the error has already been reported."""


class ListValue(NamedTuple):
    """`[a, b]`."""

    items: tuple[ValueNode, ...]
    start_pos: int
    end_pos: int


ValueNode: TypeAlias = Token | ListValue


class Body(NamedTuple):
    """`{ … }`."""

    entries: tuple[EntryNode, ...]
    start_pos: int
    end_pos: int


class EntryNode(NamedTuple):
    """`key value`, `key value { … }` or `key { … }`: the value, the body or both are present. A key is a word, or a
    string in a map."""

    key: Token
    value: ValueNode | None
    body: Body | None

    @property
    def word(self) -> str | None:
        """The value without quotes, if it is one token."""
        return self.value.strip('"') if isinstance(self.value, Token) else None

    @property
    def start_pos(self) -> int:
        return start(self.key)

    @property
    def end_pos(self) -> int:
        last = self.body or self.value
        return end(self.key) if last is None else end(last)


class BlockNode(NamedTuple):
    """`kind name { … }`; some blocks of the wider language have no name."""

    kind: Token
    name: Token | None
    body: Body

    @property
    def start_pos(self) -> int:
        """Start of its head."""
        return start(self.kind)

    @property
    def end_pos(self) -> int:
        """End of its head: `kind name`, without the brace."""
        return end(self.kind if self.name is None else self.name)


class ForeignNode(NamedTuple):
    """A block of the wider Symbiont language, skipped as a whole: `agent name(args) -> T { … }`.

    `start_pos` and `end_pos` delimit its head, as in a `BlockNode`; `last_pos` is the end of the block.
    """

    kind: Token
    name: Token | None
    start_pos: int
    end_pos: int
    last_pos: int


Node: TypeAlias = BlockNode | ForeignNode


def start(node: Token | ListValue | Body | EntryNode | BlockNode) -> int:
    """Start of a node; 0 for tokens without a position."""
    return node.start_pos or 0


def end(node: Token | ListValue | Body | EntryNode | BlockNode) -> int:
    """End of a node; 0 for tokens without a position."""
    return node.end_pos or 0
