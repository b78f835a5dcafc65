from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import UsageError
from runtime.search.question import LONGEST, ParsedQuestion, Question, normalized_name, parse_question

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def asked(text: str, authors: Sequence[str] = ("Ada", "Ben")) -> ParsedQuestion:
    return parse_question(Question(text=text, now=NOW), authors)


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_a_blank_question_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="nothing to search for"):
        Question(text=text, now=NOW)


@pytest.mark.parametrize(("vector", "keyword"), [(0, 0), (-0.1, 1), (1, -0.1), (nan, 1), (1, nan), (inf, 1)])
def test_weights_with_which_nothing_is_found_are_refused(vector: float, keyword: float) -> None:
    with pytest.raises(UsageError, match="nothing can be found"):
        Question(text="tea", now=NOW, vector_weight=vector, keyword_weight=keyword)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_search_for_no_hits_is_refused(limit: int) -> None:
    with pytest.raises(UsageError, match="is invalid"):
        Question(text="tea", now=NOW, limit=limit)


def test_only_the_ratio_of_weights_counts() -> None:
    assert Question(text="tea", now=NOW, vector_weight=7, keyword_weight=3).shares == pytest.approx((0.7, 0.3))
    assert Question(text="tea", now=NOW).shares == pytest.approx((0.7, 0.3))
    assert Question(text="tea", now=NOW, vector_weight=0, keyword_weight=3).shares == (0, 1)


def test_the_weights_of_a_question_come_before_those_of_the_memory() -> None:
    assert Question(text="tea", now=NOW).with_weights(0, 1).shares == (0, 1)
    assert Question(text="tea", now=NOW, vector_weight=1, keyword_weight=0).with_weights(0, 1).shares == (1, 0)
    assert Question(text="tea", now=NOW, keyword_weight=3).with_weights(1, 0).shares == (0.25, 0.75)
    with pytest.raises(UsageError, match="nothing can be found"):
        Question(text="tea", now=NOW, keyword_weight=0).with_weights(0, 1)


def test_stop_words_are_not_looked_for() -> None:
    assert asked("What did they say about the harbour in Oslo?").words == ("say", "harbour", "oslo")
    assert asked("Didn't we've it? Where's the tea").words == ("tea",)


def test_a_word_is_looked_for_once() -> None:
    assert asked("tea, Tea and TEA").words == ("tea",)


def test_a_question_of_nothing_but_stop_words_is_looked_for_as_it_stands() -> None:
    question = asked("to be or not to be")
    assert question.words == ("to", "be", "or", "not")
    assert question.only_stop_words
    assert not asked("to be a baker").only_stop_words


def test_the_author_that_is_named_is_whose_entries_are_looked_for_and_not_a_word_of_them() -> None:
    question = asked("Where did Ada buy the boat?")
    assert question.author == "ada"
    assert question.meaning == "Where did buy the boat?"
    assert question.words == ("buy", "boat")


@pytest.mark.parametrize("text", ["What is Ada's boat called?", "what is ada’s boat called?", "ADA: boat called"])
def test_a_name_is_known_however_it_is_written(text: str) -> None:
    question = asked(text)
    assert question.author == "ada"
    assert question.words == ("boat", "called")
    assert "’s" not in question.meaning
    assert "'s" not in question.meaning


def test_where_two_are_named_nobody_is_preferred() -> None:
    question = asked("Did Ada tell Ben about the boat?")
    assert question.author is None
    assert question.words == ("boat",)


def test_where_nobody_is_named_nobody_is_preferred() -> None:
    question = asked("Who has a boat?")
    assert question.author is None
    assert question.meaning == "Who has a boat?"


def test_someone_named_twice_is_one() -> None:
    assert asked("When Ada sold Ada's boat").author == "ada"


def test_a_name_alone_is_looked_for_as_a_word() -> None:
    question = asked("What about Ada?")
    assert question.author == "ada"
    assert question.words == ("ada",)
    assert question.meaning == "What about Ada?"
    assert not question.only_stop_words


def test_a_name_of_several_words_is_known_whole_and_by_the_first_of_them() -> None:
    authors = ("Ada Lovelace", "Ben")
    for text in ("what Ada Lovelace wrote", "what Ada wrote"):
        question = asked(text, authors)
        assert question.author == "ada lovelace"
        assert question.words == ("wrote",)
    assert asked("what Lovelace wrote", authors).author is None


def test_a_first_name_that_two_share_names_neither() -> None:
    question = asked("what Ada wrote", ("Ada Lovelace", "Ada Yonath"))
    assert question.author is None
    assert question.words == ("ada", "wrote")


def test_a_whole_name_goes_before_a_first_name() -> None:
    assert asked("what Ada wrote", ("Ada Lovelace", "Ada")).author == "ada"


@pytest.mark.parametrize(
    ("text", "author"), [("Did the baker ask Will about it", "will"), ("Will it rain", None), ("how will it be", None)]
)
def test_a_name_that_is_a_stop_word_is_a_name_where_it_is_written_large(text: str, author: str | None) -> None:
    assert asked(text, ("Will", "Ada")).author == author


def test_names_of_machines_are_names() -> None:
    assert asked("what did planner-2 decide", ("planner-2", "planner-3")).author == "planner 2"
    assert normalized_name("Planner_2") == "planner 2"


def test_dates_are_understood_from_now() -> None:
    (span,) = asked("what Ada did yesterday").spans
    assert span.start == datetime(2026, 11, 21, tzinfo=UTC)


def test_a_question_that_is_too_long_is_cut_and_says_so() -> None:
    question = asked("tea " * LONGEST)
    assert question.cut
    assert len(question.meaning) <= LONGEST
    assert not asked("tea").cut


@given(st.text(min_size=1), st.lists(st.text(), max_size=4))
def test_whatever_is_asked_of_whomever_is_understood(text: str, authors: list[str]) -> None:
    try:
        question = asked(text, authors)
    except UsageError:
        return
    assert bool(question.words) == any(map(str.isalnum, text[:LONGEST]))
    assert question.meaning.strip()


CHAT = ("user", "assistant", "Ada")


@pytest.mark.parametrize(
    "text",
    [
        "What did I buy?",
        "what's my dog called",
        "WHICH BOOK IS MINE",
        "I'm looking for the recipe",
        "who am I",
        'what did I say about "the boat"',
        "Phases of what I did",
    ],
)
def test_a_question_of_whoever_asks_is_about_what_the_user_said(text: str) -> None:
    assert asked(text, CHAT).author == "user"
    assert asked(text, ("assistant", "Ada")).author is None, "without a user"


@pytest.mark.parametrize(
    "text",
    [
        "install MySQL",
        "slow I/O, i.e. reads",
        "When did World War I begin?",
        "Part I of the plan",
        'the song "My Way"',
        "the song “I did it my way”",
        "What did the user ask the assistant?",
        "our mimes",
    ],
)
def test_a_question_that_only_looks_like_one_of_whoever_asks_prefers_nobody(text: str) -> None:
    assert asked(text, CHAT).author is None


def test_who_is_named_comes_before_whoever_asks() -> None:
    assert asked("What did Ada tell me?", CHAT).author == "ada"


def test_roles_are_words_and_not_names() -> None:
    for authors in (CHAT, ("User", "Assistant")):
        question = asked("How does the user find the assistant?", authors)
        assert question.words == ("user", "find", "assistant")
        assert question.meaning == "How does the user find the assistant?"
        assert question.author is None
