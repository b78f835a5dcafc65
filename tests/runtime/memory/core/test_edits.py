"""Edits of a block change what they name, or say where it is."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runtime.errors import UsageError
from runtime.memory.core.edits import END, TextAbsent, TextAmbiguous, append, insert, replace

VALUE = "Name: Ada\nLives in Lyon.\nLikes tea and tea cakes.\nName of the cat: Ada"

TEXT = st.text(alphabet="ab \n", max_size=12)


def test_the_only_occurrence_is_replaced() -> None:
    assert replace(VALUE, "Lives in Lyon.", "Lives in Oslo.") == VALUE.replace("Lyon", "Oslo")
    assert replace(VALUE, "Lives in Lyon.\n", "") == VALUE.replace("Lives in Lyon.\n", "")


@pytest.mark.parametrize(
    ("old", "place"),
    [
        ("tea", "2 times: in line 3"),
        ("Ada", "2 times: in lines 1 and 4"),
        ("Name", "2 times: in lines 1 and 4"),
        ("e", "more than 5 times: in lines 1, 2 and 3"),
    ],
)
def test_a_text_that_is_there_more_than_once_is_not_replaced_and_its_lines_are_named(old: str, place: str) -> None:
    with pytest.raises(TextAmbiguous, match=place):
        replace(VALUE, old, "x")


def test_overlapping_occurrences_are_more_than_one() -> None:
    with pytest.raises(TextAmbiguous, match="2 times"):
        replace("aaa", "aa", "b")


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("Lives in Lyons", "the nearest text is in line 2: Lives in Lyon."),
        ("lives  in lyon.", "differs in white space or case only; the nearest text is in line 2: Lives in Lyon."),
        ("Likes tea and tea cakes.\nName of the dog", "the nearest text is in line 3: Likes tea and tea cakes."),
        ("the cats", "the nearest text is in line 4"),
        ("0123456789", "no line of it is similar"),
    ],
)
def test_an_absent_text_is_answered_with_the_nearest_line(old: str, hint: str) -> None:
    with pytest.raises(TextAbsent) as absent:
        replace(VALUE, old, "x")
    assert hint in (absent.value.hint or "")


def test_an_empty_block_says_that_it_is_empty() -> None:
    with pytest.raises(TextAbsent) as absent:
        replace("", "Ada", "x")
    assert absent.value.hint == "the block is empty"


def test_the_nearest_line_of_a_long_text_is_found_and_shortened() -> None:
    lines = [f"{'word ' * 2000}{number}" for number in range(50)]
    value = "\n".join([*lines, f"The project is called Heron. {'x' * 1000}"])
    with pytest.raises(TextAbsent) as absent:
        replace(value, "The project is called Herron.", "x")
    hint = absent.value.hint or ""
    assert "in line 51: The project is called Heron." in hint
    assert len(hint) < 300


def test_an_empty_text_cannot_be_replaced_or_added() -> None:
    with pytest.raises(UsageError, match="empty"):
        replace(VALUE, "", "x")
    with pytest.raises(UsageError, match="empty"):
        append(VALUE, " \n")
    with pytest.raises(UsageError, match="empty"):
        insert(VALUE, "", 1)


@pytest.mark.parametrize(
    ("value", "content", "expected"),
    [("", "a", "a"), ("a", "b", "a\nb"), ("a\n", "b", "a\nb"), ("a", "b\nc", "a\nb\nc")],
)
def test_added_text_begins_a_line(value: str, content: str, expected: str) -> None:
    assert append(value, content) == expected
    assert insert(value, content, END) == expected


@pytest.mark.parametrize(
    ("line", "expected"), [(0, "x\na\nb"), (1, "x\na\nb"), (2, "a\nx\nb"), (3, "a\nb\nx"), (END, "a\nb\nx")]
)
def test_inserted_text_becomes_the_line(line: int, expected: str) -> None:
    assert insert("a\nb", "x", line) == expected


@pytest.mark.parametrize(("value", "line", "hint"), [("a\nb", 4, "1 to 3"), ("", 2, "1 to 1"), ("a", -2, "1 to 2")])
def test_a_line_that_is_not_there_is_refused_with_those_that_are(value: str, line: int, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        insert(value, "x", line)
    assert hint in (refused.value.hint or "")


@given(before=TEXT, old=TEXT, after=TEXT, new=TEXT)
def test_replacing_changes_nothing_around_the_text(before: str, old: str, after: str, new: str) -> None:
    value = before + old + after
    try:
        changed = replace(value, old, new)
    except UsageError:
        assert not old or value.find(old) != value.rfind(old)
        return
    assert changed == before + new + after


@given(value=TEXT, content=TEXT, line=st.integers(min_value=1, max_value=8))
def test_inserting_keeps_every_line(value: str, content: str, line: int) -> None:
    assume(content.strip() and line <= value.count("\n") + 1)
    lines = insert(value, content, line).split("\n")
    added = content.removesuffix("\n").split("\n")
    assert lines[line - 1 : line - 1 + len(added)] == added
    assert lines[: line - 1] + lines[line - 1 + len(added) :] == (value.split("\n") if value else [])
