"""Edits of a program's text."""

from __future__ import annotations

import pytest

from dslc.diagnostic import Edit
from dslc.edit import apply
from dslc.source import Span


def _edit(start: int, end: int, text: str) -> Edit:
    return Edit(Span(start, end), text)


def test_edits_are_applied_whatever_their_order() -> None:
    edits = [_edit(8, 9, "C"), _edit(0, 1, "A"), _edit(4, 5, "")]
    assert apply(b"a-- b-- c--", edits) == b"A-- -- C--"


def test_edits_that_touch_do_not_overlap_and_insertions_keep_their_order() -> None:
    edits = [_edit(1, 2, "B"), _edit(1, 1, "first "), _edit(1, 1, "second "), _edit(2, 2, "!")]
    assert apply(b"abc", edits) == b"afirst second B!c"


def test_spans_are_bytes() -> None:
    data = "é😀x".encode()
    assert apply(data, [_edit(6, 7, "ü")]).decode() == "é😀ü"


@pytest.mark.parametrize(
    "edits",
    [
        [_edit(0, 2, ""), _edit(1, 3, "")],
        [_edit(0, 2, "x"), _edit(0, 2, "x")],
        [_edit(0, 2, ""), _edit(1, 1, "x")],
        [_edit(2, 1, "")],
        [_edit(0, 4, "")],
        [_edit(-1, 1, "")],
    ],
)
def test_edits_that_overlap_or_lie_outside_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match=r"overlap|outside"):
        apply(b"abc", edits)
