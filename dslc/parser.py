"""lark's parser, set up to make our nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from lark import Lark, TextSlice, Token, Transformer
from lark.lexer import LexerThread

from dslc.tree import BlockNode, Body, Entry, ListValue
from grammar.parser import load


@cache
def parser() -> Lark:
    """The parser; one for the process."""
    return load(transformer=_Nodes())


def tokens(text: str, at: int = 0) -> Iterator[Token]:
    """The tokens of a text from the character `at` on, their places counted from the text's beginning.

    Every text can be cut into tokens. `Lark.lex` is not asked, for it builds a lexer at every call.
    """
    thread = LexerThread.from_text(parser().parser.lexer, TextSlice(text, at, len(text)))
    return iter(thread.lex(None))  # type: ignore[no-untyped-call]


class _Nodes(Transformer[Token, Any]):
    """Makes the nodes while lark parses, so that lark's own tree is never built."""

    def file(self, children: list[BlockNode]) -> tuple[BlockNode, ...]:
        return tuple(children)

    def block(self, children: list[Any]) -> BlockNode:
        return BlockNode(children[0], children[1] if len(children) == 3 else None, children[-1])

    def body(self, children: list[Any]) -> Body:
        return Body(tuple(children[1:-1]), children[0].start_pos, children[-1].end_pos)

    def setting(self, children: list[Any]) -> Entry:
        return Entry(children[0], children[1], None)

    def variant(self, children: list[Any]) -> Entry:
        return Entry(children[0], children[1], children[2])

    def group(self, children: list[Any]) -> Entry:
        return Entry(children[0], None, children[1])

    def list(self, children: list[Any]) -> ListValue:
        return ListValue(tuple(children[1:-1]), children[0].start_pos, children[-1].end_pos)
