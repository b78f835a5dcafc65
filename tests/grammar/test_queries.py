"""Highlighting, folding, indentation and symbols by the queries for editors."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from tree_sitter import Node, QueryCursor

from dslc.extract import read_tree
from dslc.source import Source
from dslc.syntax.tree import BlockNode, Body, EntryNode
from grammar.language import QUERIES, parse, query

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.symbiont"))

TEXT = b"""\
# a comment
memory "agent-memory" {
    store     markdown
    retention 90d
    gates     [tdd_proof "x" true]
    search { vector_weight 0.7 }
}

agent reviewer {
    enabled     true,
    memory      agent-memory
    instruction "a\\nb"
}

webhook w {
    secret   ["secret://vault/w" "vault://x" "file://y"]
    provider custom { header "X-Sig" }
    agent    "reviewer"
}

agent theirs(body: JSON) -> Text {
    allow "this"
}
type Id = String
"""


def _captures(name: str, data: bytes) -> dict[str, list[str]]:
    """Return the captured texts, by capture, in source order, without captures that only serve a predicate."""
    found: dict[str, list[str]] = {}
    for capture, nodes in QueryCursor(query(name)).captures(parse(data).root_node).items():
        if not capture.startswith("_"):
            found[capture] = [_text(node) for node in sorted(nodes, key=lambda node: node.start_byte)]
    return found


def _highlights(data: bytes) -> dict[str, list[str]]:
    """Return the texts of each capture, every node under the capture of the last pattern that matches it."""
    last: dict[int, tuple[int, str, Node]] = {}
    for pattern, captures in QueryCursor(query("highlights")).matches(parse(data).root_node):
        for capture, nodes in captures.items():
            for node in nodes:
                if pattern >= last.get(node.id, (0,))[0]:
                    last[node.id] = (pattern, capture, node)
    found: dict[str, list[str]] = defaultdict(list)
    for _, capture, node in sorted(last.values(), key=lambda one: one[2].start_byte):
        found[capture].append(_text(node))
    return found


def _text(node: Node) -> str:
    return (node.text or b"").decode()


def _entries(body: Body) -> list[EntryNode]:
    return [inner for entry in body.entries for inner in (entry, *(_entries(entry.body) if entry.body else ()))]


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_is_one_for_this_language(name: str) -> None:
    assert query(name).pattern_count > 0


def test_each_part_of_a_text_has_its_colour() -> None:
    assert _highlights(TEXT) == {
        "comment": ["# a comment"],
        "keyword": ["memory", "agent", "webhook", "agent", "type"],
        "type": ['"agent-memory"', "reviewer", "agent-memory", "w", '"reviewer"', "theirs", "Id"],
        "module": ["search"],
        "property": [
            *("store", "retention", "gates", "vector_weight", "enabled", "memory"),
            *("instruction", "secret", "provider", "header", "agent"),
        ],
        "constant": ["markdown", "tdd_proof", "custom"],
        "constant.builtin.boolean": ["true", "true"],
        "number": ["90d", "0.7"],
        "string": ['"x"', '"a\\nb"', '"secret://vault/w"', '"vault://x"', '"file://y"', '"X-Sig"', '"this"'],
        "string.escape": ["\\n"],
        "string.special.url": ["secret://vault/w", "vault://x", "file://y"],
        "punctuation.bracket": [*"{[]{}}{}{[]{}}(){}"],
        "punctuation.delimiter": [","],
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_coloured_as_the_compiler_reads_them(path: Path) -> None:
    data = path.read_bytes()
    nodes = [node for section in read_tree(parse(data), Source(path.name, data)).sections for node in section.blocks]
    entries = [entry for node in nodes if isinstance(node, BlockNode) for entry in _entries(node.body)]
    colours = _highlights(data)
    assert colours["keyword"] == [node.kind for node in nodes]
    assert colours["property"] == [entry.key for entry in entries if entry.value is not None]
    assert colours.get("module", []) == [entry.key for entry in entries if entry.value is None]
    lines = map(str.strip, data.decode().splitlines())
    assert colours["comment"] == [line for line in lines if line.startswith("#")]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_body_and_long_string_of_the_examples_folds(path: Path) -> None:
    data = path.read_bytes()
    folds = _captures("folds", data)["fold"]
    assert sum(fold.startswith("{") for fold in folds) == data.count(b"{\n")
    assert sum(fold.startswith('"""') for fold in folds) == data.count(b'"""') / 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_indented_as_the_queries_say(path: Path) -> None:
    data = path.read_bytes()
    cursor = QueryCursor(query("indents"))
    captures = cursor.captures(parse(data).root_node)
    inside = [range(node.start_point.row + 1, node.end_point.row + 1) for node in captures["indent.begin"]]
    # Nodes that end on a separate line; a list in brackets may end on its first line.
    first = [len(line) - len(line.lstrip()) for line in data.splitlines()]
    ends = [node.start_point for node in captures["indent.branch"]]
    outside = {end.row for end in ends if end.column == first[end.row]}
    free = [range(node.start_point.row + 1, node.end_point.row + 1) for node in captures.get("indent.auto", [])]
    for row, line in enumerate(data.decode().splitlines()):
        if line and not any(row in rows for rows in free):
            depth = sum(row in rows for rows in inside) - (row in outside)
            assert line.startswith("    " * depth)
            assert line[4 * depth] != " "


def test_names_are_found_where_they_are_declared_and_used_however_they_are_spelt() -> None:
    assert _captures("locals", TEXT) == {
        "local.scope": [TEXT.decode()],
        "local.definition.type": ["agent-memory", "reviewer", "w", "theirs"],
        "local.reference": ["agent-memory", "reviewer"],
    }


def test_the_two_editors_names_for_an_indent_stand_on_the_same_nodes() -> None:
    captures = _captures("indents", TEXT)
    assert captures["indent.begin"] == captures["indent"]
    assert captures["indent.branch"] == captures["indent.end"] == captures["outdent"]
