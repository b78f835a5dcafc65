"""Scores of rankings, their groups, and the difference between two ways of searching."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

import pytest

from bench.harness.dialogues import Query
from bench.recall.scores import (
    Outcome,
    Ranking,
    adversarial,
    average,
    by_category,
    by_conversation,
    by_kind,
    difference,
    outcomes,
    together,
)


def outcome(found: Sequence[str], evidence: Sequence[str], category: str = "temporal") -> Outcome:
    query = Query(q="?", cat=category, evidence=list(evidence))
    [scored] = outcomes([Ranking("talk", query, found)])
    return scored


def scored(conversation: str, value: float, category: str = "temporal", kind: str | None = None) -> Outcome:
    return Outcome(conversation, Query(q="?", cat=category, kind=kind, evidence=["a"]), value, value, value)


def test_recall_is_the_share_of_the_evidence_among_the_first() -> None:
    found = outcome(["a", "x", "x", "x", "x", "b", "x", "x", "x", "x"], "abcd")
    assert (found.recall_5, found.recall_10) == (0.25, 0.5)


def test_ndcg_counts_how_far_up_the_evidence_is() -> None:
    ideal = 1 + 1 / log2(3)
    assert outcome("ba", "ab").ndcg_10 == pytest.approx(1)
    assert outcome("xa", "ab").ndcg_10 == pytest.approx(1 / log2(3) / ideal)
    assert outcome("", "ab").ndcg_10 == 0


def test_a_short_ranking_is_measured_against_all_of_the_evidence() -> None:
    assert outcome("a", "ab").ndcg_10 == pytest.approx(1 / (1 + 1 / log2(3)))


def test_a_question_without_evidence_has_no_score() -> None:
    assert outcomes([Ranking("talk", Query(q="?", cat="temporal", evidence=[]), ["a"])]) == []


def test_adversarial_questions_are_averaged_apart() -> None:
    rows = [outcome("a", "a", "single_hop"), outcome("b", "a", "adversarial")]
    assert together(rows) == average(rows[:1])
    assert adversarial(rows) == average(rows[1:])
    assert list(by_category(reversed(rows))) == ["single_hop", "adversarial"]
    assert together(rows[1:]) is None


def test_kinds_and_conversations_are_averaged_without_adversarial_questions() -> None:
    rows = [
        scored("two", 1, kind="update"),
        scored("one", 0.5, kind="event"),
        scored("one", 0, kind="event"),
        scored("one", 0),
        scored("one", 0, "adversarial", kind="event"),
    ]
    assert {name: (each.queries, each.recall_10) for name, each in by_kind(rows).items()} == {
        "event": (2, 0.25),
        "update": (1, 1),
    }
    assert {name: each.queries for name, each in by_conversation(rows).items()} == {"two": 1, "one": 3}


def test_a_search_is_compared_with_the_better_of_the_others() -> None:
    search = [scored("one", 0.5), scored("two", 0.5), scored("two", 1, "adversarial")]
    others = {
        "worse": [scored("one", 0), scored("two", 0), scored("two", 1, "adversarial")],
        "better": [scored("one", 1), scored("two", 0.5), scored("two", 0, "adversarial")],
    }
    found = difference(search, others, "recall_10")
    assert (found.best, found.mean) == ("better", -0.25)
    assert found == difference(search, others, "recall_10")


def test_the_error_of_a_difference_is_that_of_the_choice_of_conversations() -> None:
    names = [f"talk {number}" for number in range(16)]
    nothing = {"nothing": [scored(name, 0) for name in names for _ in range(5)]}
    alike = [scored(name, value) for name in names for value in (0, 0, 0, 1, 1)]
    assert difference(alike, nothing, "ndcg_10").error == pytest.approx(0, abs=1e-9)
    apart = [scored(name, at % 2) for at, name in enumerate(names) for _ in range(5)]
    # The mean of sixteen conversations, each 0 or 1.
    assert difference(apart, nothing, "ndcg_10").error == pytest.approx(0.5 / 4, rel=0.1)


def test_one_conversation_tells_nothing_about_the_error() -> None:
    assert difference([scored("one", 1)], {"nothing": [scored("one", 0)]}, "recall_5").error is None
