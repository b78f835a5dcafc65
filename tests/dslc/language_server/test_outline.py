"""The outline of a text that may be broken."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslc.language_server.outline import outline
from dslc.syntax.reader import Entry, Group

_PARTS = [
    "{", "}", "[", "]", ",", "\n", '"', '"""', "'", "#", "//", "\\", " ", "a", "key", "9d", "=", "é😀", "\r\n", "\t",
]  # fmt: skip


def _said(text: str) -> list[str]:
    """Return every entry of a text as `path.to.key = value`."""
    said = []
    waiting = [("", entry) for entry in reversed(outline(text).root.entries)]
    while waiting:
        path, entry = waiting.pop()
        said.append(f"{path}{entry.key.text}{_value(entry)}{' {}' if entry.body else ''}")
        waiting += [(f"{path}{entry.key.text}.", inner) for inner in reversed(entry.body.entries if entry.body else [])]
    return said


def _value(entry: Entry) -> str:
    if isinstance(entry.value, Group):
        return f" = [{' '.join(item.text for item in entry.value.items)}]"
    return f" = {entry.value.text}" if entry.value else ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('webhook w { path "/a" secret "b", filter { json_path "$.a" equals 1 } }',
         ["webhook = w {}", 'webhook.path = "/a"', 'webhook.secret = "b"', "webhook.filter {}",
          'webhook.filter.json_path = "$.a"', "webhook.filter.equals = 1"]),
        ("a b {\n  key\n  other 5\n", ["a = b {}", "a.key", "a.other = 5"]),
        ('a b {\n  path = "/x"\n}\n', ["a = b {}", 'a.path = "/x"']),
        ('a b {\n  path "/x }\n}\nc d {}', ["a = b {}", 'a.path = "/x', "c = d {}"]),
        ("a b\n{\n  c 1\n}", ["a = b {}", "a.c = 1"]),
        ('a b { list [x "y"\n z] c 1 }', ["a = b {}", 'a.list = [x "y" z]', "a.c = 1"]),
        ("a b { list [x\n}\nc {}", ["a = b {}", "a.list = [x]", "c {}"]),
        ('a b { t """\n } { # no\n""" c 1 }', ["a = b {}", 'a.t = """\n } { # no\n"""', "a.c = 1"]),
        ("} } a b { c 1 # d 2 }\n}", ["a = b {}", "a.c = 1"]),
        ("p custom { header 'x' }", ["p = custom {}", "p.header = 'x'"]),
    ],
)  # fmt: skip
def test_what_can_be_read_is_read(text: str, expected: list[str]) -> None:
    assert _said(text) == expected


@given(st.lists(st.sampled_from(_PARTS), max_size=40).map("".join) | st.text(string.printable, max_size=60))
def test_any_text_has_an_outline_whose_places_lie_inside(text: str) -> None:
    found = outline(text)
    for entry, body in found.bodies():
        assert 0 <= entry.start <= body.start < body.end <= len(text)
    for opened in found.lists:
        assert 0 <= opened.start < opened.end <= len(text)
    for token in found.long:
        start, end = token.inner
        assert token.start <= start <= end <= token.end <= len(text)


def test_braces_without_end_are_looked_into_so_far_only() -> None:
    assert len(list(outline("a {" * 5000).bodies())) <= 101
