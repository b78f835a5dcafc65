"""Chunks: no text is lost, none is above the size, and they end at the end of sentences."""

from __future__ import annotations

import re
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.chunking import chunks, spans

PIECES = st.sampled_from(
    [
        *("Hello there. ", "Is it so? ", "No!", "Dr. Smith e.g. said 3.14. ", "word ", "\n", "\n\n", "\r\n", "  "),
        *("# Heading\n", "## Another\n\n", "- one\n", "* two\n  more of two\n", "1. first\n", "12) twelfth\n"),
        *("```python\n", "```\n", "~~~\n", "x = 1\n", "| a | b |\n", "|---|---|\n"),
        *("日本語の文です。", "二つ目！", "「引用。」", "、", "नमस्ते दुनिया।", "مرحبا؟ ", "สวัสดี", "…", "...", ".)"),
        *("supercalifragilistic", "e\u0301", "👩\u200d👩\u200d👧", "\u2028", "\x0b", "\u3000", "a" * 50),
    ]
)
TEXTS = st.lists(PIECES, max_size=60).map("".join) | st.text(max_size=200)
SIZES = st.integers(1, 120)


def solid(text: str) -> str:
    """Return the text without white space."""
    return "".join(text.split())


@given(TEXTS, SIZES, st.integers(0, 60))
def test_no_chunk_is_over_the_size_or_blank(text: str, size: int, overlap: int) -> None:
    for chunk in chunks(text, size, overlap):
        assert 0 < len(chunk) <= size
        assert chunk.strip()


@given(TEXTS, SIZES, st.integers(0, 60))
def test_nothing_of_the_text_is_lost_and_nothing_is_added(text: str, size: int, overlap: int) -> None:
    found = spans(text, size, overlap)
    covered = bytearray(len(text))
    for start, end in found:
        covered[start:end] = b"\x01" * (end - start)
    assert not "".join(character for character, there in zip(text, covered, strict=True) if not there).strip()
    assert chunks(text, size, overlap) == [text[start:end] for start, end in found]


@given(TEXTS, SIZES)
def test_without_overlap_every_character_is_in_one_chunk(text: str, size: int) -> None:
    assert solid("".join(chunks(text, size))) == solid(text)


@given(TEXTS, SIZES, st.integers(0, 60))
def test_the_same_text_gives_the_same_chunks(text: str, size: int, overlap: int) -> None:
    assert chunks(text, size, overlap) == chunks(text, size, overlap)


@given(TEXTS, SIZES, st.integers(0, 60))
def test_chunks_go_forward_and_overlap_no_more_than_was_said(text: str, size: int, overlap: int) -> None:
    for (start, end), (following, last) in pairwise(spans(text, size, overlap)):
        assert start < following
        assert end < last
        assert end - following <= min(overlap, size // 2)


@given(TEXTS, SIZES, st.integers(0, 60))
def test_no_word_is_cut_that_fits(text: str, size: int, overlap: int) -> None:
    for start, end in spans(text, size, overlap):
        for at in (start, end):
            if 0 < at < len(text) and re.fullmatch(r"[a-z]{2}", text[at - 1 : at + 1]):
                word = re.search(r"\S*\Z", text[:at])[0] + re.match(r"\S*", text[at:])[0]  # type: ignore[index]
                assert len(word) > size


SENTENCES = [f"Sentence number {number} says something." for number in range(40)]


@given(st.integers(80, 300), st.integers(0, 100), st.integers(2, 40))
def test_sentences_stay_whole_and_what_is_repeated_is_whole_sentences(size: int, overlap: int, count: int) -> None:
    found = chunks(" ".join(SENTENCES[:count]), size, overlap)
    for chunk in found:
        assert all(part in SENTENCES for part in re.split(r"(?<=\.) ", chunk))
    for before, after in pairwise(found):
        last = re.split(r"(?<=\.) ", before)[-1]
        room = len(last) <= min(overlap, size // 2)
        assert after.startswith(SENTENCES[SENTENCES.index(last) + 1]) or room
        if room and len(f"{last} {SENTENCES[SENTENCES.index(last) + 1]}") <= size:
            assert last in after


def test_a_text_that_fits_is_one_chunk() -> None:
    assert chunks("  Short. And sweet.\n", 100, 20) == ["Short. And sweet."]


@pytest.mark.parametrize("blank", ["", " ", "\n\n \t\r\n"])
def test_blank_text_has_none(blank: str) -> None:
    assert chunks(blank, 10) == []


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (-1, 0), (10, -1)])
def test_sizes_that_are_none_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="a chunk has at least one character"):
        chunks("text", size, overlap)


def test_a_list_a_table_and_code_stay_together_where_they_fit() -> None:
    lists = "- one thing\n- another thing\n  with more\n- third"
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    code = "```python\ndef f():\n\n    return 1. Or so. Or not.\n```"
    for block in (lists, table, code):
        text = f"It begins with a sentence. And one more.\n\n{block}\n\nAnd it ends with one."
        assert any(block in chunk for chunk in chunks(text, len(block) + 5))


def test_a_list_that_does_not_fit_is_divided_between_its_items() -> None:
    items = [f"- item {number} of the list, with a few words" for number in range(6)]
    assert chunks("\n".join(items), len(items[0])) == items


def test_code_that_does_not_fit_is_divided_between_its_lines() -> None:
    lines = ["```", *(f"x{number} = f({number}); g()" for number in range(9)), "```"]
    found = chunks("\n".join(lines), 40)
    assert len(found) > 3
    assert [line for chunk in found for line in chunk.splitlines()] == lines


def test_a_heading_stays_with_what_it_stands_above() -> None:
    text = "A first sentence that fills it.\n\n## Heading\n\nWhat stands below. And more of it."
    assert chunks(text, 45) == [
        "A first sentence that fills it.",
        "## Heading\n\nWhat stands below.",
        "And more of it.",
    ]
    assert chunks("# Only headings\n\n## And nothing", 20) == ["# Only headings", "## And nothing"]


def test_other_languages_end_their_sentences_their_own_way() -> None:
    assert chunks("日本語の文です。これは二つ目です！「引用。」三つ目", 12) == [
        "日本語の文です。",
        "これは二つ目です！",
        "「引用。」三つ目",
    ]
    assert chunks("नमस्ते दुनिया। कैसे हो आप।", 16) == ["नमस्ते दुनिया।", "कैसे हो आप।"]
    assert chunks("مرحبا بك؟ أهلا وسهلا.", 12) == ["مرحبا بك؟", "أهلا وسهلا."]


def test_an_abbreviation_or_a_number_ends_no_sentence() -> None:
    text = "Ask Dr. Smith, e.g. about 3.14 or J. Doe. He knows it."
    assert chunks(text, 45) == ["Ask Dr. Smith, e.g. about 3.14 or J. Doe.", "He knows it."]


def test_a_sentence_that_is_too_long_is_cut_at_words_and_a_word_anywhere() -> None:
    assert chunks("one two three four five", 10, 5) == ["one two", "three four", "five"]
    assert chunks("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]
    # A combining mark stays with its letter.
    assert chunks("aaae\u0301bb", 4) == ["aaa", "e\u0301bb"]


@pytest.mark.parametrize(
    "unit",
    [
        "!",
        ". ",
        ".)",
        "word ",
        "```\n",
        "\n",
        "x",
        "- a\n",
        "A. ",
        "# h\n",
        "，",
        "| a\n",
        "1. ",
        "。",
        "'\"",
        "~~~x\n",
        "Mr. ",
    ],
)
def test_the_work_is_in_proportion_to_the_text(unit: str) -> None:
    def steps(text: str) -> int:
        count = 0

        def counted(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(counted)
        try:
            chunks(text, 1000, 200)
        finally:
            sys.setprofile(None)
        return count

    few, many = steps(unit * 2000), steps(unit * 8000)
    assert many < 6 * few + 1000
