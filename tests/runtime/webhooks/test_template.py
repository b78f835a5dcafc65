from __future__ import annotations

import re

import pytest

from runtime.webhooks import Refused
from runtime.webhooks.template import Signed, Template


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{body}", b"B%s\xff"),
        ("{timestamp}.{body}", b"17.B%s\xff"),
        ("v0:{timestamp}:{body}", b"v0:17:B%s\xff"),
        ("{id}.{timestamp}.{body}", b"a.17.B%s\xff"),
        ("{method}{url}{body}{timestamp}", b"POSThttps://h/B%s\xff17"),
        ("100%(x)s%{body}%d", b"100%(x)s%B%s\xff%d"),
        ("{body}{id}", b"B%s\xffa"),
    ],
)
def test_a_template_is_filled_with_what_was_sent(text: str, filled: bytes) -> None:
    values = Signed(b"B%s\xff", timestamp="17", id="a", url="https://h/", method="POST")
    assert Template(text).compile()(values) == filled


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "{body} is missing"),
        ("{timestamp}", "{body} is missing"),
        ("{body}{body}", "more than once"),
        ("{Body}", "no such field {Body}"),
        ("{body.__class__}", "no such field"),
        ("{}{body}", "no such field {}"),
        ("{body}}", "a brace without its partner"),
        ("{{body}}", "a brace without its partner"),
        ("{{body}", "a brace without its partner"),
        ("{id}{body}", "{id} needs a separator"),
    ],
)
def test_a_template_that_means_nothing_says_why(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        Template(text)


def test_the_border_behind_an_id_cannot_be_moved() -> None:
    fill = Template("{id}.{body}").compile()
    assert fill(Signed(b"b.c", id="a")) == b"a.b.c"
    with pytest.raises(Refused, match="malformed_id"):
        fill(Signed(b"c", id="a.b"))


def test_an_id_that_is_not_text_is_refused() -> None:
    with pytest.raises(Refused, match="malformed_id"):
        Template("{id}.{body}").compile()(Signed(b"", id="\udcff"))
