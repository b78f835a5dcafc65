"""lark's parser, configured to build the nodes of `dslc.syntax.tree` and fed by the lexer of `dslc.syntax.tokens`.

lark's own lexer counts lines for each token and stores five positions that are not used here, which takes half of the
parsing time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from lark import Lark, Token, Transformer

from dslc.syntax.tokens import grammar_tokens
from dslc.syntax.tree import BlockNode, Body, EntryNode, ListValue
from grammar.parser import load

_IGNORED = {"BLANK", "COMMENT"}


@cache
def parser() -> Lark:
    """The parser; one instance per process."""
    return load(transformer=_Nodes())


def parse(text: str) -> tuple[BlockNode, ...]:
    """The blocks of a text. Raises lark's UnexpectedToken."""
    feed = parser().parse_interactive(start="file").parser_state.feed_token
    for token in tokens(text):
        feed(token)
    return cast("tuple[BlockNode, ...]", feed(_token("$END", "", len(text), len(text)), True))


def tokens(text: str, at: int = 0) -> Iterator[Token]:
    """The tokens of a text from the character `at` on; positions count from the beginning of the text.

    Every text can be split into tokens.
    """
    for match in grammar_tokens(text, at):
        kind = match.lastgroup
        if kind not in _IGNORED:
            start, end = match.span()
            yield _token(cast("str", kind), match[0], start, end)


def _token(kind: str, text: str, start: int, end: int) -> Token:
    """A token with only the positions used here; lark's constructor takes three times as long."""
    token = str.__new__(Token, text)
    token.type = kind
    token.value = text
    token.start_pos = start
    token.end_pos = end
    return token


class _Nodes(Transformer[Token, Any]):
    """Builds the nodes while lark parses, so that lark's own tree is never built."""

    def file(self, children: list[BlockNode]) -> tuple[BlockNode, ...]:
        return tuple(children)

    def block(self, children: list[Any]) -> BlockNode:
        return BlockNode(children[0], children[1] if len(children) == 3 else None, children[-1])

    def body(self, children: list[Any]) -> Body:
        return Body(tuple(children[1:-1]), children[0].start_pos, children[-1].end_pos)

    def setting(self, children: list[Any]) -> EntryNode:
        return EntryNode(children[0], children[1], None)

    def variant(self, children: list[Any]) -> EntryNode:
        return EntryNode(children[0], children[1], children[2])

    def group(self, children: list[Any]) -> EntryNode:
        return EntryNode(children[0], None, children[1])

    def list(self, children: list[Any]) -> ListValue:
        return ListValue(tuple(children[1:-1]), children[0].start_pos, children[-1].end_pos)
