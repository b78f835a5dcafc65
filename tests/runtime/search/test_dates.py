from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.search.dates import spans

NOW = datetime(2026, 11, 22, 10, 30, 15, 250_000, tzinfo=UTC)
"""A Sunday."""
WORDS_OF_TIME = [
    *("last", "this", "past", "two", "3", "days", "weeks", "ago", "in", "on", "of", "may", "2023", "2023-05-03"),
    *("summer", "weekend", "monday", "31", "99", "the", "a"),
]


def days(text: str, now: datetime = NOW) -> list[tuple[str, str]]:
    """Return the spans of a text as first and last day, both inclusive."""
    return [(f"{span.start:%Y-%m-%d}", f"{span.end - timedelta(microseconds=1):%Y-%m-%d}") for span in spans(text, now)]


@pytest.mark.parametrize(
    "text",
    [
        "what happened on 3 May 2023",
        "what happened on 3 May, 2023?",
        "on the 3rd of May 2023",
        "on May 3, 2023",
        "on May 3rd 2023",
        "on may the 3rd, 2023",
        "2023-05-03",
        "at 2023-05-03T10:00:00Z",
    ],
)
def test_a_day_of_the_calendar_is_that_day(text: str) -> None:
    assert days(text) == [("2023-05-03", "2023-05-03")]


@pytest.mark.parametrize("text", ["in May 2023", "in may of 2023", "May, 2023", "2023-05"])
def test_a_month_of_a_year_is_all_of_it(text: str) -> None:
    assert days(text) == [("2023-05-01", "2023-05-31")]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("in 2022", "2022-01-01", "2022-12-31"),
        ("since 2022", "2022-01-01", "2022-12-31"),
        ("in the summer of 2022", "2022-06-01", "2022-08-31"),
        ("winter 2022", "2022-12-01", "2023-02-28"),
        ("in May", "2026-05-01", "2026-05-31"),
        ("in december", "2025-12-01", "2025-12-31"),
        ("last March", "2026-03-01", "2026-03-31"),
        ("in November", "2026-11-01", "2026-11-30"),
        ("on 4 July", "2026-07-04", "2026-07-04"),
        ("on 22 November", "2026-11-22", "2026-11-22"),
        ("on December 24", "2025-12-24", "2025-12-24"),
        ("on 29 February", "2024-02-29", "2024-02-29"),
        ("today", "2026-11-22", "2026-11-22"),
        ("this morning", "2026-11-22", "2026-11-22"),
        ("tonight", "2026-11-22", "2026-11-22"),
        ("yesterday", "2026-11-21", "2026-11-21"),
        ("the day before yesterday", "2026-11-20", "2026-11-20"),
        ("last night", "2026-11-21", "2026-11-21"),
        ("on Tuesday", "2026-11-17", "2026-11-17"),
        ("last Sunday", "2026-11-15", "2026-11-15"),
        ("last week", "2026-11-09", "2026-11-15"),
        ("this week", "2026-11-16", "2026-11-22"),
        ("last weekend", "2026-11-14", "2026-11-15"),
        ("this weekend", "2026-11-21", "2026-11-22"),
        ("last month", "2026-10-01", "2026-10-31"),
        ("this month", "2026-11-01", "2026-11-30"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("last summer", "2026-06-01", "2026-08-31"),
        ("this summer", "2026-06-01", "2026-08-31"),
        ("last winter", "2025-12-01", "2026-02-28"),
        ("last autumn", "2025-09-01", "2025-11-30"),
        ("3 days ago", "2026-11-19", "2026-11-19"),
        ("a week ago", "2026-11-09", "2026-11-15"),
        ("a couple of weeks ago", "2026-11-02", "2026-11-08"),
        ("two months ago", "2026-09-01", "2026-09-30"),
        ("eleven months ago", "2025-12-01", "2025-12-31"),
        ("ten years ago", "2016-01-01", "2016-12-31"),
        ("in the last 3 days", "2026-11-19", "2026-11-22"),
        ("over the past two weeks", "2026-11-08", "2026-11-22"),
        ("in the last two months", "2026-09-23", "2026-11-22"),
        ("in the past 2 years", "2024-11-22", "2026-11-22"),
    ],
)
def test_times_are_understood_from_today(text: str, first: str, last: str) -> None:
    assert days(f"What did she say {text}?") == [(first, last)]


@pytest.mark.parametrize(
    "text", ["on 3 May 2023", "on 4 July", "in May", "winter 2022", "today", "last Sunday", "last week"]
)
def test_a_span_begins_and_ends_at_midnight_in_utc(text: str) -> None:
    [span] = spans(text, NOW)
    for moment in span:
        assert moment.tzinfo is UTC
        assert moment.time() == datetime.min.time()


@pytest.mark.parametrize(
    ("today", "summer"),
    [
        (datetime(2026, 7, 10, tzinfo=UTC), 2025),
        (datetime(2026, 8, 31, tzinfo=UTC), 2025),
        (datetime(2026, 9, 1, tzinfo=UTC), 2026),
    ],
)
def test_last_summer_is_over(today: datetime, summer: int) -> None:
    assert days("last summer", today) == [(f"{summer}-06-01", f"{summer}-08-31")]


def test_this_summer_has_begun_on_its_first_day() -> None:
    assert days("this summer", datetime(2026, 6, 1, tzinfo=UTC)) == [("2026-06-01", "2026-08-31")]


def test_a_leap_day_may_be_eight_years_ago() -> None:
    assert days("on 29 February", datetime(2104, 2, 28, tzinfo=UTC)) == [("2096-02-29", "2096-02-29")]


def test_several_times_are_all_found() -> None:
    assert days("between May 2023 and 3 June 2023") == [("2023-06-03", "2023-06-03"), ("2023-05-01", "2023-05-31")]


def test_after_a_day_that_no_calendar_has_the_next_one_is_found() -> None:
    assert days("was it 31 June 2023 or 3 May 2023?") == [("2023-05-03", "2023-05-03")]


def test_what_surrounds_a_date_is_not_read_as_one() -> None:
    assert days("May,2023-06-03 2022") == [("2023-06-03", "2023-06-03")]


def test_beside_a_day_of_the_calendar_today_counts_nothing() -> None:
    assert days("last weekend before April 10, 2023") == [("2023-04-10", "2023-04-10")]


@pytest.mark.parametrize(
    "text",
    [
        "May I ask who they march with?",
        "31 June 2023",
        "2023-13-45",
        "the second week",
        "99999 years ago",
        "room 2022",
        "a spring in the mattress",
        "the last of the weeks",
        "",
    ],
)
def test_what_is_no_time_prefers_none(text: str) -> None:
    assert days(text) == []


def test_days_are_those_of_utc() -> None:
    evening = datetime(2026, 11, 22, 20, tzinfo=timezone(timedelta(hours=-8)))
    assert days("yesterday", evening) == [("2026-11-22", "2026-11-22")]


def test_days_are_those_of_utc_whatever_the_time_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.setenv("TZ", "<+14>-14")
        time.tzset()
        found = days("yesterday", datetime(2026, 11, 22, 20, tzinfo=UTC))
    time.tzset()
    assert found == [("2026-11-21", "2026-11-21")]


@pytest.mark.parametrize("year", [1, 2, 9999])
@pytest.mark.parametrize("text", ["last year", "yesterday", "in December", "last winter", "a week ago", "this month"])
def test_at_the_ends_of_the_calendar_nothing_breaks(text: str, year: int) -> None:
    for month in (1, 12):
        spans(text, datetime(year, month, 1, tzinfo=UTC))
        spans(text, datetime(year, month, 31, tzinfo=UTC))


@given(st.text(), st.datetimes(timezones=st.just(UTC)))
def test_whatever_is_asked_is_read(text: str, now: datetime) -> None:
    for span in spans(text, now):
        assert span.start < span.end


@given(
    st.lists(
        st.sampled_from(WORDS_OF_TIME),
        max_size=8,
    )
)
def test_whatever_words_of_time_come_together_are_read(words: list[str]) -> None:
    for span in spans(" ".join(words), NOW):
        assert span.start < span.end
