"""The committed parse tables match the grammar."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random

import lark
import pytest

from dslc.syntax.lark_parser import tokens
from grammar import parser
from tests.dslc.syntax.test_any_input import VALID


def test_the_tables_are_those_of_the_grammar() -> None:
    tables = json.loads(parser.TABLES.read_bytes())
    assert hashlib.sha256(parser.grammar_text().encode()).hexdigest() == tables["grammar_sha256"]


def test_the_tables_are_those_of_the_installed_lark() -> None:
    """With another version of lark every start would build the parser."""
    assert json.loads(parser.TABLES.read_bytes())["lark"] == lark.__version__


def test_loaded_and_built_parsers_read_alike() -> None:
    assert parser.load().parse(VALID, start="file") == parser.build().parse(VALID, start="file")


def test_another_lark_than_the_tables_builds_its_parser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "tables.json"
    other.write_text(json.dumps({"lark": "0"}), encoding="utf-8")
    monkeypatch.setattr(parser, "TABLES", other)
    assert isinstance(parser.load(), lark.Lark)


@pytest.mark.parametrize("seed", range(4))
def test_our_lexer_cuts_every_text_as_larks_own_does(seed: int) -> None:
    own, random = parser.build(), Random(seed)
    for _ in range(300):
        text = "".join(random.choice(_PIECES) for _ in range(random.randrange(30)))
        expected = [(token.type, str(token), token.start_pos, token.end_pos) for token in own.lex(text)]
        assert [(token.type, str(token), token.start_pos, token.end_pos) for token in tokens(text)] == expected


_PIECES = (*"{}[],='#/\\\n\t ab1-_.:\r\"", '"""', "//", "é", "90d", "word", '"a"', "\r\n")
