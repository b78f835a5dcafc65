"""Text to tree. A file that cannot be read gives one diagnostic and no blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from lark import Lark, Token, Transformer, UnexpectedInput

from dslc.diagnostic import CODES, Diagnostic
from dslc.findings import Findings, Place
from dslc.source import LARGEST, Source
from dslc.syntax_error import TooDeep, explain
from dslc.tree import BlockNode, Body, Entry, ListValue
from dslc.vocabulary import Vocabulary
from grammar.parser import load

DEEPEST = 64  # levels of braces and brackets
_DEEPER = {"LBRACE": 1, "LSQB": 1, "RBRACE": -1, "RSQB": -1}


@dataclass(frozen=True)
class File:
    """A source as it was read. `readable`: it has no syntax error, so `blocks` are all it declares."""

    source: Source
    blocks: tuple[BlockNode, ...]
    diagnostics: tuple[Diagnostic, ...]
    readable: bool


def parse(source: Source, vocabulary: Vocabulary) -> File:
    """The blocks of a source, or what keeps it from being read. The vocabulary only words the diagnostics."""
    findings = Findings(source)
    if not _is_text(findings):
        return File(source, (), tuple(findings.found), readable=False)
    text = source.text or ""
    try:
        blocks = cast("tuple[BlockNode, ...]", parser().parse(text, start="file"))
    except (UnexpectedInput, TooDeep) as error:
        explain(error, _tokens(text), findings, vocabulary)
        return File(source, (), tuple(findings.found), readable=False)
    return File(source, blocks, (), readable=True)


@cache
def parser() -> Lark:
    """The parser that makes our nodes; one for the process."""
    return load(transformer=_Nodes(), postlex=_Nesting())


def _tokens(text: str) -> Iterator[Token]:
    """The tokens of a text, up to where it is nested too deep."""
    try:
        yield from parser().lex(text)
    except TooDeep:
        return


class _Nesting:
    """Stops at what is nested too deep, before the parser's stack grows with it."""

    always_accept = ()

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        depth = 0
        for token in stream:
            depth += _DEEPER.get(token.type, 0)
            if depth > DEEPEST:
                raise TooDeep(token)
            yield token


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


def _is_text(findings: Findings) -> bool:
    """Whether the bytes are text of the language's kind; notes the first thing that is not."""
    source = findings.source
    if len(source.data) > LARGEST:
        findings.add("S108", "the file is larger than 4 MiB", Place(0, 0), hint="split it: all files form one program")
        return False
    if source.undecodable is not None:
        hint = "save the file as UTF-8"
        findings.found.append(
            Diagnostic("S108", CODES["S108"][0], "not UTF-8", source.name, source.undecodable, (), hint)
        )
        return False
    text = source.text or ""
    bare = next((at for at in _finds(text, "\r") if text[at + 1 : at + 2] != "\n"), None)
    if bare is not None:
        findings.add(
            "S109", "a carriage return alone ends no line", Place(bare, bare + 1), hint="lines end in LF or CRLF"
        )
        return False
    nul = text.find("\0")
    if nul >= 0:
        findings.add("S109", "a NUL character cannot stand in a program", Place(nul, nul + 1), hint="remove it")
    return nul < 0


def _finds(text: str, what: str) -> Iterator[int]:
    at = text.find(what)
    while at >= 0:
        yield at
        at = text.find(what, at + 1)
