"""Names and texts are quoted where the language requires it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslc.diagnostics.collector import DiagnosticCollector
from dslc.syntax.quoting import quoted, write_name
from dslc.value_reading.string_literals import text_of
from grammar.parser import load

_PARSER = load()


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_quoted_text_is_one_string_on_one_line_that_says_it(text: str) -> None:
    collector = DiagnosticCollector("")
    (token,) = _PARSER.lex(quoted(text))
    assert (token.type, text_of(token, collector), collector.found) == ("STRING", text, [])
    assert str(token).isprintable()


@pytest.mark.parametrize("text", ["\0", "\ud800", "a\udc80"])
def test_what_no_string_holds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a string cannot contain"):
        quoted(text)


@pytest.mark.parametrize(
    ("name", "written"),
    [("a-b_1", "a-b_1"), ("_", "_"), ("a.b", '"a.b"'), ("1a", '"1a"'), ("a b", '"a b"'), ("", '""')],
)
def test_a_name_is_a_bare_word_where_it_can_be(name: str, written: str) -> None:
    assert write_name(name) == written
