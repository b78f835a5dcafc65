"""The compiler's grammar and the editors' grammar accept the same texts, and find the same nodes in them.

Texts are programs in any layout, and texts with a few small errors. `SYMBIONT_MUTANTS` is the number of the latter;
they are the same in each run.
"""

from __future__ import annotations

import os
import re
from random import Random
from typing import Any

import pytest
from lark import Token

from dslc.catalog import Catalog
from dslc.diagnostics.invisible import clean_text
from dslc.extract import read_tree
from dslc.parse import File, parse
from dslc.recovery.state import RecoveryResult
from dslc.source import Source
from dslc.syntax.tree import BlockNode, Body, ForeignNode, ListValue
from dslc.vocabulary import Vocabulary
from grammar import language
from tests.cases import each_case
from tests.grammar.programs import damaged, program

MUTANTS = int(os.environ.get("SYMBIONT_MUTANTS", "20000"))
EACH = 20  # of one program
CHUNKS = 8
VOCABULARY = Vocabulary(Catalog.installed())


def plain(node: Any) -> Any:
    """Return a node as comparable data: kind, text and position."""
    match node:
        case None:
            return None
        case Token():
            return (node.type, str(node), node.start_pos, node.end_pos)
        case ListValue():
            return ("list", node.start_pos, node.end_pos, [plain(item) for item in node.items])
        case Body():
            entries = [(plain(entry.key), plain(entry.value), plain(entry.body)) for entry in node.entries]
            return ("body", node.start_pos, node.end_pos, entries)
        case BlockNode():
            return ("block", plain(node.kind), plain(node.name), plain(node.body))
        case ForeignNode():
            return ("foreign", plain(node.kind), plain(node.name), node.start_pos, node.end_pos, node.last_pos)
    raise TypeError(node)


def outline(file: File) -> list[Any]:
    """Return all sections of a file with their positions and blocks; a section may have several blocks."""
    return [
        (section.start, section.offset, section.text, [plain(block) for block in section.blocks])
        for section in file.sections
    ]


INNER_HEAD = re.compile(r"\n(?:memory|webhook|agent|model)[ \t]+[^\n]*\{")


def disagreement(text: str) -> str | None:
    """Return the difference between the two grammars' results for a text."""
    source = Source("file", text)
    tree = language.parse(text)
    file = parse(source, VOCABULARY)
    if file.faults or clean_text(text).places:
        return None  # a lone carriage return, a NUL, an invisible character that the compiler reads as a blank
    if not tree.root_node.has_error and INNER_HEAD.search(text):
        return None  # the grammar accepts it; the compiler reads it as a missing brace
    if file.readable == tree.root_node.has_error:
        codes = [(found.code, found.message) for found in file.diagnostics]
        return f"the compiler finds {codes}, tree-sitter {tree.root_node}"
    if file.readable and outline(file) != outline(read_tree(tree, source)):
        return f"{outline(file)} is not {outline(read_tree(tree, source))}"
    return None


@each_case("chunk", range(CHUNKS))
def test_both_grammars_read_one_language(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without error recovery, which takes most of the time: only acceptance is compared.
    monkeypatch.setattr("dslc.recovery.recover", lambda *_: RecoveryResult([]))
    for seed in range(chunk, MUTANTS // EACH, CHUNKS):
        tokens, random = program(seed), Random(seed)
        for text in ("".join(tokens), *(damaged(tokens, random) for _ in range(EACH))):
            difference = disagreement(text)
            assert difference is None, f"{text!r}: {difference}"


def test_most_programs_can_be_read_and_most_damage_is_noticed() -> None:
    whole = [not language.parse("".join(program(seed))).root_node.has_error for seed in range(300)]
    broken = [language.parse(damaged(program(seed), Random(seed))).root_node.has_error for seed in range(300)]
    assert sum(whole) > 270
    assert sum(broken) > 100


@each_case(
    "text",
    [
        "",
        "\ufeff",
        "\ufeffmemory é {}",
        "a {} b {} policy p { } c {}",
        "agent a { capabilities: [b] } agent c { policy p { allow: x(y) } function f(z) { } }",
        "type A = B",
        "type A = B // c",
        "type A = B\u00a0\ntype C = D",
        'type A "="\n',
        "type A = (\n",
        "policy p ( { }",
        "policy p ) { }",
        'policy """p""" { }',
        'policy p { """ } """ }',
        'policy p { """ } }',
        'policy "',
        "agent x",
        "agent x (",
        "agent x () { } agent y { }",
        'agent """x""" () { }',
        "agents x () { }",
        "x {\r\n}\r\n",
        'x { a """\r\n""" }\r\n',
        "x { a [\r\n, ] }",
        'x y { a """b"""" c" }',
        'x { a [ """a"""" b"] }',
    ],
)
def test_both_grammars_agree_in_the_corners(text: str) -> None:
    assert disagreement(text) is None
