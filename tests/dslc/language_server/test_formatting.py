"""A text is formatted with few edits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dslc.language_server.text_edits import difference

_TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "}\n", "\n", "c\r\n", "d\u2028"]), max_size=20).map("".join)


def _edited(old: str, new: str) -> str:
    sections, at = [], 0
    for start, end, text in difference(old, new):
        assert at <= start <= end
        sections += [old[at:start], text]
        at = end
    return "".join([*sections, old[at:]])


@given(_TEXTS, _TEXTS)
def test_the_edits_make_the_new_text(old: str, new: str) -> None:
    assert _edited(old, new) == new


@given(_TEXTS)
def test_the_same_text_needs_no_edit(text: str) -> None:
    assert list(difference(text, text)) == []


def test_only_lines_that_differ_are_touched() -> None:
    assert list(difference("a\nb\nc\nd\n", "a\nB\nc\nD\n")) == [(2, 4, "B\n"), (6, 8, "D\n")]


def test_a_text_without_a_common_line_is_replaced_whole() -> None:
    old, new = "".join(f"{number}\n" for number in range(3000)), "x\n" * 3000
    assert len(list(difference(old, new))) == 1
    assert _edited(old, new) == new
