"""The summary that needs no model: the design's algorithm, to the letter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.summary.extractive import LONGEST_LINE, extract

TEXTS = [
    "Deployed 2.1 to staging. The disk was full! Who cleans it?",
    "Ada freed the disk. The disk was full",
    "Deployed again",
]


def test_sentences_are_split_at_full_stops_exclamations_and_questions_and_joined_by_full_stops() -> None:
    assert extract(TEXTS, 250) == (
        "Deployed 2. 1 to staging. The disk was full. Who cleans it. Ada freed the disk. Deployed again"
    )


def test_a_sentence_that_was_there_before_is_left_out_and_one_that_differs_in_a_letter_is_not() -> None:
    assert extract(["One. Two. One.", "one. Two"], 250) == "One. Two. one"


def test_they_stay_in_their_order() -> None:
    assert extract(["B. A.", "C. A. B"], 250) == "B. A. C"


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, "Deployed"),
        (2, "Deployed 2"),
        (5, "Deployed 2. 1 to staging"),
        (8, "Deployed 2. 1 to staging"),
        (9, "Deployed 2. 1 to staging. The disk was full"),
    ],
)
def test_they_are_accumulated_until_the_words_are_used_up(most: int, expected: str) -> None:
    assert extract(TEXTS, most) == expected


def test_a_first_sentence_that_is_too_long_by_itself_is_cut() -> None:
    assert extract(["one two three four. five"], 3) == "one two three"


def test_a_sentence_over_several_lines_is_one_line() -> None:
    assert extract([" The disk\n\twas  full .\r\n"], 250) == "The disk was full"


def test_a_line_has_180_characters_at_most_and_ends_with_a_word() -> None:
    long = " ".join(["word"] * 100)
    kept = extract([long], 250)

    assert len(kept) == 179
    assert set(kept.split()) == {"word"}


def test_a_word_that_is_longer_than_a_line_is_cut() -> None:
    assert extract(["x" * 500], 250) == "x" * LONGEST_LINE


@pytest.mark.parametrize("texts", [[], [""], ["...", "?!"], ["\n"]], ids=str)
def test_what_holds_no_sentence_has_no_summary(texts: list[str]) -> None:
    assert extract(texts, 250) == ""


@given(st.lists(st.text(max_size=400), max_size=8), st.integers(1, 60))
def test_it_is_bounded_and_the_same_each_time(texts: list[str], most: int) -> None:
    kept = extract(texts, most)

    assert kept == extract(list(texts), most)
    assert len(kept.split()) <= most
    lines = kept.split(". ") if kept else []
    assert all(len(line) <= LONGEST_LINE for line in lines)
