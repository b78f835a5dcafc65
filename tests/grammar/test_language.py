"""The parser for editors is generated from the committed grammar, and is optional."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from grammar.generated import SUMS, sums
from grammar.language import LanguageNotBuilt, language, parse, query


@pytest.fixture
def _not_built(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulate a missing module, as without a compiler."""
    monkeypatch.setitem(sys.modules, "grammar._tree_sitter", None)
    language.cache_clear()
    yield
    language.cache_clear()


def test_the_committed_parser_is_made_from_the_committed_grammar() -> None:
    assert SUMS.read_text(encoding="utf-8") == sums(), "run `make grammar`"


def test_the_parser_is_of_the_oldest_form_that_generators_write() -> None:
    """Neovim 0.10, in Debian 13, reads parsers of ABI 13 and 14."""
    source = (SUMS.parent / "parser.c").read_text(encoding="utf-8")
    assert "#define LANGUAGE_VERSION 14\n" in source


def test_text_and_bytes_give_one_tree_with_offsets_in_bytes() -> None:
    text = 'memory "é😀" { a b }'
    assert str(parse(text).root_node) == str(parse(text.encode()).root_node)
    assert parse(text).root_node.end_byte == len(text.encode())


def test_a_byte_order_mark_is_passed_over() -> None:
    assert not parse(b"\xef\xbb\xbfmemory m { a b }").root_node.has_error


@pytest.mark.usefixtures("_not_built")
def test_without_the_compiled_part_whoever_needs_it_hears_what_to_do() -> None:
    for need in (language, lambda: parse("memory m {}"), lambda: query("folds")):
        with pytest.raises(LanguageNotBuilt, match=r"not built: .*Install a C compiler|install a C compiler"):
            need()


@pytest.mark.usefixtures("_not_built")
def test_without_the_compiled_part_the_compiler_works() -> None:
    from dslc.catalog import Catalog
    from dslc.compiler import analyse
    from dslc.source import Source

    assert analyse([Source("m", "memory m { retention 1d }")], Catalog.installed()).program.memories


def test_the_parser_survives_any_depth_and_any_bytes() -> None:
    for text in ("{" * 100_000, "[" * 100_000, '"' * 100_001, "a {" * 50_000, "\0\ufeff\r" * 1000, b"\xff\xfe" * 1000):
        assert parse(text).root_node.has_error
