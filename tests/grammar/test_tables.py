"""The committed parse tables are those of the grammar."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import lark
import pytest

from grammar import parser
from tests.dslc.test_any_input import VALID


def test_the_tables_are_those_of_the_grammar() -> None:
    tables = json.loads(parser.TABLES.read_bytes())
    assert hashlib.sha256(parser.grammar_text().encode()).hexdigest() == tables["grammar_sha256"]


def test_loaded_and_built_parsers_read_alike() -> None:
    assert parser.load().parse(VALID, start="file") == parser.build().parse(VALID, start="file")


def test_another_lark_than_the_tables_builds_its_parser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "tables.json"
    other.write_text(json.dumps({"lark": "0"}), encoding="utf-8")
    monkeypatch.setattr(parser, "TABLES", other)
    assert isinstance(parser.load(), lark.Lark)
