from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.search import fusion
from runtime.search.dates import TimeSpan

MAY = TimeSpan(datetime(2023, 5, 1, tzinfo=UTC), datetime(2023, 6, 1, tzinfo=UTC))


def floats(*numbers: float) -> fusion.Floats:
    return np.array(numbers, np.float32)


def keys(*numbers: int) -> fusion.Numbers:
    return np.array(numbers, np.int64)


def microseconds(*times: datetime) -> fusion.Numbers:
    return np.array([round(time.timestamp() * 1e6) for time in times], np.int64)


def test_candidates_of_both_sides_are_weighed_once() -> None:
    assert fusion.union(keys(9, 3, 5), keys(5, 1)).tolist() == [1, 3, 5, 9]


def test_a_key_has_a_place_among_the_candidates_or_none() -> None:
    assert fusion.places(keys(1, 3, 5), keys(5, 0, 4, 9, 1)).tolist() == [2, -1, -1, -1, 0]
    assert fusion.places(keys(3), keys(5, 3)).tolist() == [-1, 0]
    assert fusion.places(keys(), keys(5, 0)).tolist() == [-1, -1]


def test_what_one_side_did_not_find_has_nothing_from_it() -> None:
    assert fusion.aligned_scores(keys(1, 3, 5), keys(5, 1), floats(0.5, 2)).tolist() == [2, 0, 0.5]


def test_the_best_score_is_one_and_no_other_is_above_it() -> None:
    assert fusion.scaled(floats(2, 8, 4)).tolist() == [0.25, 1, 0.5]


def test_the_lesser_of_two_good_finds_is_not_nothing() -> None:
    assert fusion.scaled(floats(0.6, 0.54)).tolist() == pytest.approx([1, 0.9])


def test_scores_below_zero_are_the_least() -> None:
    assert fusion.scaled(floats(-0.25, 0.75, 0.25)).tolist() == [0, 1, 0.5]


def test_where_nothing_is_shared_nothing_is_scored() -> None:
    assert fusion.scaled(floats(0, 0)).tolist() == [0, 0]
    assert fusion.scaled(floats(-0.5, -0.5)).tolist() == [0, 0]
    assert fusion.scaled(floats()).tolist() == []


@given(st.lists(st.floats(-1, 1, width=32), max_size=20))
def test_whatever_is_scaled_lies_between_nothing_and_one(scores: list[float]) -> None:
    scaled = fusion.scaled(floats(*scores))
    assert ((scaled >= 0) & (scaled <= 1)).all()


SHORT_TEXTS = np.ones(3)


def test_neighbours_hand_on_a_share() -> None:
    given_on = fusion.from_neighbours(
        floats(1, 0, 0.5), keys(-1, 0, 1), keys(1, 2, -1), np.zeros(3, np.bool_), SHORT_TEXTS
    )
    share = fusion.NEIGHBOUR
    assert given_on.tolist() == pytest.approx([0, share * 1.5, 0])


def test_a_question_hands_more_to_what_follows_it_than_to_what_it_follows() -> None:
    asks = np.array([False, True, False])
    given_on = fusion.from_neighbours(floats(0, 1, 0), keys(-1, 0, 1), keys(1, 2, -1), asks, SHORT_TEXTS)
    assert given_on.tolist() == pytest.approx([fusion.NEIGHBOUR, 0, fusion.ANSWER])
    assert fusion.ANSWER > fusion.NEIGHBOUR


def test_a_long_text_neither_hands_on_nor_gets_a_share() -> None:
    asks, depends = np.zeros(3, np.bool_), np.array([1, 0, 1])
    given_on = fusion.from_neighbours(floats(1, 1, 1), keys(-1, 0, 1), keys(1, 2, -1), asks, depends)
    assert given_on.tolist() == [0, 0, 0]


def test_a_token_counts_with_its_best_match_in_the_text_or_for_less_beside_it() -> None:
    matches = np.array([[0.5, 0.1], [0.2, 0.9]], np.float32)
    best = fusion.with_neighbours(matches, before=keys(-1, 0), after=keys(1, -1), depends=np.ones(2))
    share = fusion.NEIGHBOUR_TOKENS
    assert best.tolist() == [pytest.approx([0.5, 0.9 * share]), pytest.approx([0.5 * share, 0.9])]


def test_the_tokens_beside_a_long_text_do_not_count_and_none_is_below_0() -> None:
    matches = np.array([[-1, 0.1], [0.8, 0.9]], np.float32)
    best = fusion.with_neighbours(matches, before=keys(-1, -1), after=keys(1, -1), depends=np.zeros(2))
    assert best.tolist() == [pytest.approx([0, 0.1]), pytest.approx([0.8, 0.9])]


def test_a_token_that_is_unlike_all_in_a_text_and_beside_it_counts_0() -> None:
    matches = np.array([[-0.5, 0.1, 0.3]] * 3, np.float32)
    best = fusion.with_neighbours(matches, before=keys(-1, 0, 1), after=keys(1, 2, -1), depends=np.ones(3))
    assert best.tolist() == [pytest.approx([0, 0.1, 0.3])] * 3


def test_the_mix_of_two_measures_is_at_most_1() -> None:
    assert fusion.combined(floats(1, 0, 0.5), floats(1, 0.5, 0)).tolist() == pytest.approx(
        [1, 0.5 * fusion.TOKENS, 0.5 * (1 - fusion.TOKENS)]
    )


def test_a_time_in_the_span_is_as_close_as_can_be() -> None:
    times = microseconds(MAY.start, MAY.start + timedelta(days=20), MAY.end - timedelta(microseconds=1))
    assert fusion.closeness(times, [MAY]).tolist() == [1, 1, 1]


def test_closeness_fades_on_both_sides_and_never_ends() -> None:
    days = (1, 8, 60)
    after = fusion.closeness(microseconds(*(MAY.end + timedelta(days=n) for n in days)), [MAY]).tolist()
    before = fusion.closeness(microseconds(*(MAY.start - timedelta(days=n) for n in days)), [MAY]).tolist()
    assert after == pytest.approx(before)
    assert 1 > after[0] > after[1] > after[2] > 0


@pytest.mark.parametrize(
    ("span", "days"),
    [
        (TimeSpan(datetime(2023, 5, 3, tzinfo=UTC), datetime(2023, 5, 4, tzinfo=UTC)), 3),
        (MAY, 31 / 4),
        (TimeSpan(datetime(2023, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)), 365 / 4),
    ],
    ids=["day", "month", "year"],
)
def test_closeness_falls_to_1_of_e_in_three_days_or_a_quarter_of_the_span(span: TimeSpan, days: float) -> None:
    off = timedelta(days=days)
    each = fusion.closeness(microseconds(span.start - off, span.end + off), [span])
    assert each.tolist() == pytest.approx([1 / math.e, 1 / math.e])


def test_scores_have_32_bits() -> None:
    assert fusion.aligned_scores(keys(1, 3), keys(3), floats(0.5)).dtype == np.float32
    assert fusion.closeness(microseconds(MAY.start), [MAY]).dtype == np.float32
    assert fusion.closeness(microseconds(MAY.start), []).dtype == np.float32


@pytest.mark.parametrize(
    ("cosine", "share", "relevance"),
    [
        (0.5, 0.0, 0.5),
        (0.0, 0.5, 0.5),
        (0.5, 0.5, 0.75),
        (math.nan, 0.25, 0.25),
        (-0.5, 0.25, 0.25),
        (1.0, 0.25, 1.0),
        (0.5, 1.0, 1.0),
        (1.5, 0.0, 1.0),
        (0.5, 2.0, 1.0),
        (0.5, -1.0, 0.5),
        (math.nan, 0.0, 0.0),
    ],
)
def test_relevance_adds_what_one_of_meaning_and_words_leaves_open(
    cosine: float, share: float, relevance: float
) -> None:
    assert fusion.relevance(np.array([cosine]), np.array([share])).tolist() == [relevance]


def test_of_several_spans_the_nearest_counts() -> None:
    july = TimeSpan(datetime(2023, 7, 1, tzinfo=UTC), datetime(2023, 8, 1, tzinfo=UTC))
    times = microseconds(MAY.start, july.start, datetime(2023, 6, 20, tzinfo=UTC))
    each = fusion.closeness(times, [MAY, july]).tolist()
    assert each[:2] == [1, 1]
    assert each[2] == fusion.closeness(times, [july])[2]
