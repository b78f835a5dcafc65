"""Definitions from a tree that an editor has already parsed.

`extract_memory_definitions` and `extract_webhook_definitions` are those of the first design (v1.4.0, sections 3 and 5).
They take a tree of the tree-sitter grammar and return the same definitions as the compiler. The nodes of the tree are
converted to those of the compiler and checked by it; there is no second set of rules. `docs/extract.md` shows their
use.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cache

from lark import Token
from tree_sitter import Node, Tree

from dslc.blocks.block import Block
from dslc.blocks.memory import Memory
from dslc.blocks.webhook import Webhook
from dslc.catalog import Catalog
from dslc.check.declarations import FileDeclarations
from dslc.check.model import model_of
from dslc.check.references import References
from dslc.check.section import CheckedSection, check_section
from dslc.diagnostics.collector import relocate
from dslc.diagnostics.diagnostic import Diagnostic, Severity
from dslc.parse import File, ParsedSection, PlacedSection, faults, parse
from dslc.source import Source
from dslc.syntax.section import MAX_DEPTH
from dslc.syntax.tree import BlockNode, Body, EntryNode, ForeignNode, ListValue, ValueNode
from dslc.vocabulary import Vocabulary

_UNDECLARED = "R301"  # another file may declare the name


def extract_memory_definitions(tree: Tree, source: str | bytes) -> list[Memory]:
    """The memories declared in `source`, in source order. `tree`: result of `grammar.language.parse` for the source.

    Bytes must be UTF-8. Raises ValueError, with line and column, if the text cannot be read or one of its memories is
    invalid. References are not checked, because another file may declare them.
    """
    return [block for block in _definitions(tree, source, "memory") if isinstance(block, Memory)]


def extract_webhook_definitions(tree: Tree, source: str | bytes) -> list[Webhook]:
    """The webhooks declared in `source`, in source order. `tree`: result of `grammar.language.parse` for the source.

    Bytes must be UTF-8. Raises ValueError, with line and column, if the text cannot be read or one of its webhooks is
    invalid. References are not checked, because another file may declare them.
    """
    return [block for block in _definitions(tree, source, "webhook") if isinstance(block, Webhook)]


def _definitions(tree: Tree, text: str | bytes, kind: str) -> list[Block]:
    source = Source("", text)
    file = read_tree(tree, source)
    sections = [check_section(section.parsed, _vocabulary()) for section in file.sections]
    _raise_first(source, _errors(file, sections, kind))
    blocks = (block for section in sections for block in section.blocks if block.kind == kind)
    return [model for block in blocks if (model := model_of(block).model) is not None]


def _errors(file: File, sections: list[CheckedSection], kind: str) -> list[Diagnostic]:
    """Errors of the blocks of a kind, and of blocks that may be meant to be of this kind."""
    references, declarations, found = (
        References(str(_vocabulary().kinds["memory"]["path"].default), _vocabulary().fileless),
        FileDeclarations("", (0, ())),
        [],
    )
    for section, checked in zip(file.sections, sections, strict=True):
        declarations.add(checked, section.offset)
        found += [relocate(diagnostic, "", section.offset) for diagnostic in checked.diagnostics]
    references.replace("", declarations)
    references.recheck()
    offsets, others = [section.offset for section in file.sections], _vocabulary().kinds.keys() - {kind}

    def concerns(diagnostic: Diagnostic) -> bool:
        section = file.sections[bisect_right(offsets, diagnostic.span.start) - 1]
        return any(block.kind not in others for block in section.blocks) and diagnostic.code != _UNDECLARED

    errors = (each for each in (*found, *references.diagnostics("")) if each.severity is Severity.ERROR)
    return list(filter(concerns, errors))


def _raise_first(source: Source, errors: Iterable[Diagnostic]) -> None:
    """Raise ValueError for the first of these errors, if any."""
    first = min(errors, key=lambda error: (error.span.start, error.span.end, error.code), default=None)
    if first is not None:
        place = source.position(first.span.start)
        hint = f"; {first.hint}" if first.hint else ""
        raise ValueError(f"line {place.line}, column {place.column}: {first.message}{hint} ({first.code})")


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary(Catalog.installed())


def read_tree(tree: Tree, source: Source) -> File:
    """Convert a tree to a file of the compiler: a section for each block, with the compiler's nodes.

    Raises ValueError, with line and column, if the text cannot be read, or if the tree belongs to another text.
    """
    root, data = tree.root_node, source.data
    # A parser of ABI 14 does not expose its name: it is recognised by a rule that only this grammar has.
    is_ours = tree.language.id_for_node_kind("foreign_block", True) is not None
    if not is_ours or root.has_changes or root.text != data[root.start_byte : root.end_byte]:
        raise ValueError("the tree does not belong to this text: parse it again")
    _raise_first(source, faults(source))
    if root.has_error or _depth(tree) > MAX_DEPTH:
        _raise_first(source, parse(source, _vocabulary()).diagnostics)  # the compiler's own diagnostics
        raise ValueError("the tree has errors, but the compiler finds none in the text")
    sections, index, byte = [], 0, source.offset(0)
    for node in root.named_children:
        if node.type == "comment":
            continue
        index, byte = index + len(data[byte : node.start_byte].decode()), node.start_byte
        reader = _Reader(data, byte)
        block = reader.foreign(node) if _is_foreign(node) else reader.block(node)
        sections.append(PlacedSection(index, byte, ParsedSection(data[byte : node.end_byte].decode(), (block,))))
    return File(source, tuple(sections))


def _is_foreign(node: Node) -> bool:
    """Return True for a block of the wider language; an agent without arguments is recognised by what it contains."""
    body = node.child_by_field_name("body")
    parts = () if node.type != "block" or body is None else body.named_children
    return any(part.type in {"foreign_block", "foreign_setting"} for part in (node, *parts))


def _depth(tree: Tree) -> int:
    """Maximum nesting of bodies and lists of this language."""
    cursor, depth, deepest = tree.walk(), 0, 0
    while True:
        inside = cursor.node is not None and cursor.node.type in {"body", "list"}
        if cursor.node is not None and cursor.node.type != "foreign_block" and cursor.goto_first_child():
            depth += inside
            deepest = max(deepest, depth)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return deepest
            depth -= cursor.node is not None and cursor.node.type in {"body", "list"}


class _Reader:
    """Converts the nodes of one block; positions are relative to its beginning.

    Nodes are read in source order, so that byte offsets become indexes in one pass.
    """

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._byte = start
        self._index = 0

    def block(self, node: Node) -> BlockNode:
        return BlockNode(self._token(_field(node, "kind")), self._name(node), self._body(_field(node, "body")))

    def foreign(self, node: Node) -> ForeignNode:
        kind, name = self._token(_field(node, "kind")), self._name(node)
        body = node.child_by_field_name("body")
        if body is None:
            end = self._at(node.end_byte)
            return ForeignNode(kind, name, 0, end, end)
        head = self._data[self._byte : body.start_byte].decode().rstrip(" \t\r\n")
        return ForeignNode(kind, name, 0, self._index + len(head), self._at(node.end_byte))

    def _name(self, node: Node) -> Token | None:
        name = node.child_by_field_name("name")
        if name is None or self._data.startswith(b'"""', name.start_byte):
            return None  # a long string in the head of a skipped block
        return self._token(name)

    def _body(self, node: Node) -> Body:
        start = self._at(node.start_byte)
        entries = tuple(self._entry(child) for child in _parts(node))
        return Body(entries, start, self._at(node.end_byte))

    def _entry(self, node: Node) -> EntryNode:
        key, value, body = _field(node, "key"), node.child_by_field_name("value"), node.child_by_field_name("body")
        return EntryNode(
            self._token(key), None if value is None else self._value(value), None if body is None else self._body(body)
        )

    def _value(self, node: Node) -> ValueNode:
        if node.type != "list":
            return self._token(node)
        start = self._at(node.start_byte)
        items = tuple(self._value(child) for child in _parts(node))
        return ListValue(items, start, self._at(node.end_byte))

    def _token(self, node: Node) -> Token:
        start, end = self._at(node.start_byte), self._at(node.end_byte)
        text = self._data[node.start_byte : node.end_byte].decode()
        return Token(node.type.upper(), text, start_pos=start, end_pos=end)

    def _at(self, byte: int) -> int:
        """Index of a byte at or after the previous one."""
        self._index += len(self._data[self._byte : byte].decode())
        self._byte = byte
        return self._index


def _field(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    assert child is not None, f"a {node.type} has a {name} in a tree without errors"
    return child


def _parts(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]
