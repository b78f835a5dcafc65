"""What a file says, before anything is known about kinds and settings.

Every node knows its place as indexes into the text of its piece: `start_pos` and `end_pos`. Words and scalar values are
lark's tokens: strings that know their place and their `type`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from lark import Token


class MissingToken(Token):
    """Stands where a value or a name is missing, or could not be read; that has been reported."""


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
    """`key value`, `key value { … }` or `key { … }`: one at least of value and body is there."""

    key: Token
    value: ValueNode | None
    body: Body | None

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
        """Where its head begins."""
        return start(self.kind)

    @property
    def end_pos(self) -> int:
        """Where its head ends: `kind name`, without the brace."""
        return end(self.kind if self.name is None else self.name)


class ForeignNode(NamedTuple):
    """A block of the wider Symbiont language, skipped whole: `agent name(args) -> T { … }`.

    `start_pos` to `end_pos` is its head, as in a `BlockNode`; it ends at `last_pos`.
    """

    kind: Token
    name: Token | None
    start_pos: int
    end_pos: int
    last_pos: int


Node: TypeAlias = BlockNode | ForeignNode


def start(node: Token | ListValue | Body | EntryNode | BlockNode) -> int:
    """Where a node begins; tokens made by hand have no place."""
    return node.start_pos or 0


def end(node: Token | ListValue | Body | EntryNode | BlockNode) -> int:
    """Where a node ends."""
    return node.end_pos or 0
