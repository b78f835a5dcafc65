"""The committed parse tables are those of the grammar."""

from __future__ import annotations

import hashlib

import lark
import pytest

from grammar import parser, tables
from tests.dslc.test_any_input import VALID


def test_the_tables_are_those_of_the_grammar() -> None:
    assert hashlib.sha256(parser.grammar_text().encode()).hexdigest() == tables.GRAMMAR_SHA256


def test_loaded_and_built_parsers_read_alike() -> None:
    assert parser.load().parse(VALID, start="file") == parser.build().parse(VALID, start="file")


def test_another_lark_than_the_tables_builds_its_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LARK_VERSION", "0")
    assert isinstance(parser.load(), lark.Lark)
