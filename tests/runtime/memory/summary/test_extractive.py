"""The summary without a model: it consists of unchanged sentences of the items."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.chunking import chunks
from runtime.memory.summary.extractive import CUT, LONGEST_LINE, extract
from tests.cases import each_case

TEXTS = [
    "Deployed 2.1 to staging. The disk was full! Who cleans it?",
    "Who cleans it? Ada freed the disk.",
    "The disk was full.",
    "Deployed again",
]


def test_sentences_stay_as_they_are_in_their_order() -> None:
    assert extract(TEXTS, 250) == (
        "Deployed 2.1 to staging. The disk was full! Who cleans it? Ada freed the disk. Deployed again"
    )


@each_case(
    "said",
    [
        "Upgraded Postgres from 15.4 to 16.2 on db-01 (10.0.0.7)",
        "See https://ci.example.com/run/4711?tab=log&a=b!c.d for more",
        "The certificate of api.example.com expires on 1 December",
        "Dr. Ada met Prof. Bo, e.g. about v1.2.3-rc.1, i.e. No. 5 of approx. 12",
        "It costs 3.50 or 1.000,50... or 10.0.0.0/8!",
        "Write to ada@example.com. See example.com.",
        "Ran a.sh && ./b.sh; was it file.txt? No.",
        "会議は三時です。誰が来ますか？Adaです。",
    ],
)
def test_addresses_versions_numbers_abbreviations_and_urls_stay_whole(said: str) -> None:
    assert "".join(extract([said], 250).split()) == "".join(said.split())


def test_items_of_a_list_are_told_each_as_it_stands() -> None:
    said = (
        "- Ben: upgraded Postgres from 15.4 to 16.2 on db-01 (10.0.0.7)\n"
        "- Cleo: see https://ci.example.com/run/4711?tab=log\n"
        "- Risk: the certificate of api.example.com expires on 1 December"
    )

    assert extract([said], 250) == (
        "Ben: upgraded Postgres from 15.4 to 16.2 on db-01 (10.0.0.7). "
        "Cleo: see https://ci.example.com/run/4711?tab=log. "
        "Risk: the certificate of api.example.com expires on 1 December"
    )


def test_a_number_below_zero_is_no_item_of_a_list() -> None:
    assert extract(["# Frost\n\n- 5 degrees"], 250) == "Frost. - 5 degrees"


def test_a_text_that_says_nothing_new_is_left_out_and_one_that_differs_in_a_letter_is_not() -> None:
    assert extract(["One. Two.", "Two", "one.", "Two. One!"], 250) == "One. Two. one."


def test_an_answer_that_two_questions_have_is_told_twice() -> None:
    texts = ["Is A deployed? Yes.", "Is B deployed? Yes.", "- Is C? No.\n- Is D? No."]

    assert extract(texts, 250) == "Is A deployed? Yes. Is B deployed? Yes. Is C? No. Is D? No."


def test_what_a_chunk_repeats_of_the_one_before_it_is_told_once() -> None:
    said = " ".join(f"This is sentence number {number} of the report." for number in range(12))
    cut = chunks(said, 200, 60)

    assert len("".join(cut)) > len(said)
    assert extract(cut, 250) == said


@each_case(
    ("most", "expected"),
    [
        (1, "Deployed…"),
        (2, "Deployed 2.1…"),
        (4, "Deployed 2.1 to staging."),
        (7, "Deployed 2.1 to staging."),
        (8, "Deployed 2.1 to staging. The disk was full!"),
    ],
)
def test_they_are_accumulated_until_the_words_are_used_up(most: int, expected: str) -> None:
    assert extract(TEXTS, most) == expected


def test_a_sentence_over_several_lines_is_one_line() -> None:
    assert extract([" The disk\n\twas  full .\r\n"], 250) == "The disk was full ."


def test_a_line_has_180_characters_at_most_ends_with_a_word_and_shows_that_it_was_cut() -> None:
    kept = extract([" ".join(["word"] * 100)], 250)

    assert len(kept) <= LONGEST_LINE
    assert kept.endswith(f"word{CUT}")
    assert set(kept.removesuffix(CUT).split()) == {"word"}


def test_a_word_that_is_longer_than_a_line_is_cut() -> None:
    assert extract(["x" * 500], 250) == "x" * (LONGEST_LINE - 1) + CUT


@each_case("texts", [[], [""], ["...", "?!"], ["\n"]])
def test_what_holds_no_sentence_has_no_summary(texts: list[str]) -> None:
    assert extract(texts, 250) == ""


@given(st.lists(st.text(max_size=400), max_size=8), st.integers(1, 60))
def test_it_is_bounded_and_the_same_each_time(texts: list[str], most: int) -> None:
    kept = extract(texts, most)

    assert kept == extract(list(texts), most)
    assert len(kept.split()) <= most
    assert len(kept) <= (LONGEST_LINE + 2) * most


@given(st.text(alphabet="aB1 .!?\n-:/", max_size=170))
def test_a_text_of_few_words_is_told_in_the_same_words(text: str) -> None:
    told = extract([text], 250).split()
    if CUT not in "".join(told):
        # The sentences occur in the text in this order, except for full stops between lines.
        rest = "".join(text.split())
        for word in told:
            place = rest.find(word)
            place = rest.find(word.removesuffix(".")) if place < 0 else place
            assert place >= 0
            rest = rest[place:].removeprefix(word)
