"""Three readers find the same tokens at the same positions: the grammar's parser, the tolerant reader and
tree-sitter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tree_sitter import Node

from dslc.catalog import Catalog
from dslc.parse import parse
from dslc.source import Source
from dslc.syntax.lark_parser import tokens
from dslc.syntax.reader import Atom, Comment, Entry, Group, TextRow, read_entries
from dslc.syntax.tokens import scan
from dslc.syntax.tree import ForeignNode
from dslc.vocabulary import Vocabulary
from grammar import language
from tests.grammar.programs import program
from tests.grammar.test_corpus import cases

VOCABULARY = Vocabulary(Catalog.installed())
Found = tuple[str, int, int]
_WORDS = {"WORD", "STRING", "LONG_STRING", "NUMBER"}
_BRACKETS = {"{": "LBRACE", "}": "RBRACE", "[": "LSQB", "]": "RSQB"}
_TEXTS = [case.text for case in cases() if case.tree] + ["".join(program(seed)) for seed in range(700)]


def _ours(text: str) -> list[str]:
    """Return the blocks that the compiler reads from a text without a syntax error."""
    file = parse(Source("a", text), VOCABULARY)
    sections = file.sections if file.readable else ()
    return [section.text for section in sections if not any(isinstance(block, ForeignNode) for block in section.blocks)]


_BLOCKS = [block for text in _TEXTS for block in _ours(text)]


def _of_grammar(text: str) -> list[Found]:
    found = [(token.type, token.start_pos or 0, token.end_pos or 0) for token in tokens(text)]
    return [token for token in found if token[0] in {*_WORDS, *_BRACKETS.values()}]


def _of_reader(row: TextRow) -> Iterator[Found]:
    match row:
        case Atom():
            yield row.kind, row.start, row.end
        case Entry():
            for part in (row.key, row.value, row.body):
                if part is not None:
                    yield from _of_reader(part)
        case Group():
            assert row.closed
            yield _BRACKETS[row.brackets[0]], row.start, row.start + 1
            for inner in row.rows:
                yield from _of_reader(inner)
            yield _BRACKETS[row.brackets[1]], row.end - 1, row.end


def _of_tree_sitter(node: Node) -> Iterator[Found]:
    if node.type.upper() in _WORDS or node.type in _BRACKETS:
        yield _BRACKETS.get(node.type, node.type.upper()), node.start_byte, node.end_byte
    else:
        for child in node.children:
            yield from _of_tree_sitter(child)


@pytest.mark.parametrize("chunk", range(4))
def test_the_grammar_the_reader_and_tree_sitter_find_the_same_tokens(chunk: int) -> None:
    for block in _BLOCKS[chunk::4]:
        expected = _of_grammar(block)
        assert [token for row in read_entries(block).root.rows for token in _of_reader(row)] == expected, block
        places = [(kind, len(block[:start].encode()), len(block[:end].encode())) for kind, start, end in expected]
        assert list(_of_tree_sitter(language.parse(block).root_node)) == places, block


def test_the_reader_and_tree_sitter_find_the_same_comments() -> None:
    for block in _BLOCKS:
        data, waiting, found = block.encode(), [language.parse(block).root_node], []
        while waiting:
            node = waiting.pop()
            waiting += reversed(node.children)
            found += [data[node.start_byte : node.end_byte].decode()] if node.type == "comment" else []
        expected = [block[start:end] for start, end in read_entries(block).comments]
        assert [comment.rstrip("\r") for comment in found] == expected, block


def test_no_character_of_any_text_is_lost() -> None:
    for text in _TEXTS:
        assert "".join(token[0] for token in scan(text)) == text


def _comments(row: TextRow) -> int:
    inner: list[TextRow | None] = [row.comment]
    if isinstance(row, Entry):
        inner += [row.value, row.body]
    if isinstance(row, Group):
        inner += [row.opening, *row.rows]
    return isinstance(row, Comment) + sum(_comments(part) for part in inner if part is not None)


def test_every_comment_has_its_place_in_the_tree() -> None:
    for block in _BLOCKS:
        reading = read_entries(block)
        assert _comments(reading.root) == len(reading.comments), block


def test_the_blocks_compared_are_many() -> None:
    assert len(_BLOCKS) > 300
