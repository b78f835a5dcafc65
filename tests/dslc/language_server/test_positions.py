"""A position is converted to every encoding and back without change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslc.language_server.positions import Encoding, Lines, indexes, units
from dslc.language_server.project import DocumentChange, DocumentText

ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")
TEXTS = st.text(alphabet=st.sampled_from('aé😀\u2028\x0c "#\r\n'), max_size=40)


@pytest.mark.parametrize(("encoding", "character"), [("utf-8", 6), ("utf-16", 3), ("utf-32", 2)])
def test_a_token_behind_e_acute_and_a_face_has_its_own_column(encoding: Encoding, character: int) -> None:
    lines = Lines("x\né😀name\n", encoding)
    assert lines.position(4) == (1, character)
    assert lines.index(1, character) == 4


@given(TEXTS, st.sampled_from(ENCODINGS), st.data())
def test_every_character_is_found_again(text: str, encoding: Encoding, data: st.DataObject) -> None:
    lines = Lines(text, encoding)
    index = data.draw(st.integers(0, len(text)))
    line, character = lines.position(index)
    inside_line_end = text[index - 1 : index + 1] == "\r\n"
    assert lines.index(line, character) == (index - 1 if inside_line_end else index)


@given(TEXTS, st.sampled_from(ENCODINGS), st.integers(-3, 60), st.integers(-3, 60))
def test_any_position_means_some_place(text: str, encoding: Encoding, line: int, character: int) -> None:
    assert 0 <= Lines(text, encoding).index(line, character) <= len(text)


@given(TEXTS)
def test_lines_end_where_the_protocol_says(text: str) -> None:
    expected = text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    assert len(Lines(text, "utf-16").starts) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("within", [1, 2, 3])
def test_a_position_within_a_character_means_its_beginning(encoding: Encoding, within: int) -> None:
    lines = Lines("😀x", encoding)
    assert lines.index(0, within) == (0 if within < units("😀", encoding) else within - 1)


@given(TEXTS, st.data())
def test_bytes_are_found_among_the_characters(text: str, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=5))
    offsets = [len(text[:index].encode()) for index in places]
    assert indexes(text.encode(), offsets) == dict(zip(offsets, places, strict=True))


def test_half_of_a_pair_stands_for_itself() -> None:
    assert Lines("\ud800a", "utf-16").position(1) == (0, 1)
    assert Lines("\ud800a", "utf-8").index(0, 3) == 1


def test_bytes_that_are_no_text_are_counted_somehow() -> None:
    assert indexes(b"a\xff\xfeb", [4])[4] >= 2


@given(TEXTS, TEXTS, st.sampled_from(ENCODINGS), st.data())
def test_an_edit_changes_what_it_names(text: str, new: str, encoding: Encoding, data: st.DataObject) -> None:
    before = DocumentText("a", text, encoding)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    places = before.lines.position(start), before.lines.position(end)
    start, end = (before.lines.index(*place) for place in places)  # not within CRLF
    assert before.apply([DocumentChange(new, places)]).text == text[:start] + new + text[end:]
