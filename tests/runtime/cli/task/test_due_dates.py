"""Dates as people write them: what they mean, and what is refused instead of guessed."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.cli.task.due_dates import FORMS, LONGEST, read_due_date
from runtime.errors import UsageError
from tests.lanes import examples

BERLIN = ZoneInfo("Europe/Berlin")
THURSDAY = datetime(2026, 11, 26, 14, 0, tzinfo=BERLIN)


def due(text: str, now: datetime = THURSDAY, zone: ZoneInfo | None = BERLIN) -> str:
    return read_due_date(text, now=now, zone=zone).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-01", "2026-12-01"),
        ("2026-12-01 17:30", "2026-12-01T17:30:00+01:00"),
        ("2026-12-01 9:00", "2026-12-01T09:00:00+01:00"),
        ("2026-12-01T17:30:00Z", "2026-12-01T17:30:00+00:00"),
        ("2026-12-01 17:30 -05:00", "2026-12-01T17:30:00-05:00"),
        ("today", "2026-11-26"),
        ("today 18:00 +02:00", "2026-11-26T18:00:00+02:00"),
        ("today 18:00 UTC", "2026-11-26T18:00:00+00:00"),
        ("tomorrow", "2026-11-27"),
        ("Tomorrow  9:00", "2026-11-27T09:00:00+01:00"),
        ("9:00 tomorrow", "2026-11-27T09:00:00+01:00"),
        ("tomorrow at 9 pm", "2026-11-27T21:00:00+01:00"),
        ("tomorrow noon", "2026-11-27T12:00:00+01:00"),
        ("day after tomorrow", "2026-11-28"),
        ("friday", "2026-11-27"),
        ("next friday", "2026-11-27"),
        ("next thursday", "2026-12-03"),
        ("next monday 10am", "2026-11-30T10:00:00+01:00"),
        ("in 3 days", "2026-11-29"),
        ("in a week", "2026-12-03"),
        ("in 2 weeks", "2026-12-10"),
        ("in 1 month", "2026-12-26"),
        ("in 3 days at 9:00", "2026-11-29T09:00:00+01:00"),
        ("in 3 hours", "2026-11-26T16:00:00+00:00"),
        ("in 90m", "2026-11-26T14:30:00+00:00"),
        ("1 Dec", "2026-12-01"),
        ("Dec 1, 2027", "2027-12-01"),
        ("1 Dec 17:30", "2026-12-01T17:30:00+01:00"),
        ("5 may 2027 9:00", "2027-05-05T09:00:00+02:00"),
        ("5 may", "2027-05-05"),
        ("29 feb", "2028-02-29"),
        ("9:00", "2026-11-27T09:00:00+01:00"),
        ("15:00", "2026-11-26T15:00:00+01:00"),
    ],
)
def test_a_date_means_what_a_person_means(text: str, expected: str) -> None:
    assert due(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a date"),
        ("x" * (LONGEST + 1), "not a date"),
        ("tomor\x1b[31mrow", "not a date"),
        ("03/04", "several ways"),
        ("13/04/2026", "several ways"),
        ("04.12.2026", "several ways"),
        ("1.12.", "several ways"),
        ("2026-12-1", "several ways"),
        ("in 3.5 hours", "several ways"),
        ("2026-02-30", "no day 2026-02-30"),
        ("2026-12-01 25:00", "no such time"),
        ("31 Nov", "cannot be read"),
        ("tomorrow 25:00", "no such time of day"),
        ("tomorrow 9", "what 9 is"),
        ("the 5th", "what 5 is"),
        ("12", "only a number"),
        ("20261201", "only a number"),
        ("1764600000", "only a number"),
        ("next week", "names no day"),
        ("december", "names no day"),
        ("thursday", "today or in a week"),
        ("thu 17:00", "today or in a week"),
        ("midnight", "'midnight'"),
        ("soon", "'soon'"),
        ("friday 17:00 CET", "'cet'"),
        ("friday +02:00", "no time of day"),
        ("in 1000000 years", "too far away"),
        ("in 9999 years", "cannot be read"),
        ("9:00 10:00", "cannot be read"),
        ("1 dec 2 dec", "cannot be read"),
    ],
)
def test_what_would_be_guessed_is_refused_with_what_to_write(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        due(text)
    assert reason in str(refused.value)
    assert refused.value.hint
    assert "\x1b" not in refused.value.line()


def test_an_error_shows_forms_that_are_read() -> None:
    for form in ("tomorrow 9:00", "next friday", "in 3 days", "1 Dec 17:30", "2026-12-01"):
        assert form in FORMS
        assert due(form)


def test_a_time_that_the_clocks_skip_or_show_twice_is_refused() -> None:
    with pytest.raises(UsageError, match=r"there is no 02:30 on 2027-03-28 in Europe/Berlin"):
        due("28 march 2027 2:30")
    with pytest.raises(UsageError, match="happens twice in Europe/Berlin") as refused:
        due("2027-10-31 02:30")
    assert refused.value.hint is not None
    for offset in ("+02:00", "+01:00"):
        assert f"2027-10-31 02:30{offset}" in refused.value.hint
        assert due(f"2027-10-31 02:30{offset}") == f"2027-10-31T02:30:00{offset}"


@pytest.mark.parametrize(
    ("month", "day", "next_day"), [(11, 30, "2026-12-01"), (12, 31, "2027-01-01"), (2, 28, "2026-03-01")]
)
@pytest.mark.parametrize("text", ["9:00", "at 9:00:00", "9am", "9 am"])
def test_a_time_that_has_passed_is_one_of_tomorrow(month: int, day: int, next_day: str, text: str) -> None:
    now = datetime(2026, month, day, 18, 30, 20, tzinfo=BERLIN)
    assert due(text, now) == f"{next_day}T09:00:00+01:00"
    assert due("18:30", now) == f"{next_day}T18:30:00+01:00"
    assert due("18:31", now) == f"2026-{month:02}-{day}T18:31:00+01:00"
    assert due("noon", now) == f"{next_day}T12:00:00+01:00"
    assert due("12 am", now) == f"{next_day}T00:00:00+01:00"
    # In the zone of the offset it is the next day.
    assert due("3:00 +09:00", now) == f"{next_day}T03:00:00+09:00"
    assert f"{next_day}T24" < due("1:00 +09:00", now) < "2028"


def test_today_is_a_day_of_a_month_until_its_end() -> None:
    assert [due(text) for text in ("26 nov", "nov 26th", "the 26th of november")] == ["2026-11-26"] * 3
    assert [due(text) for text in ("26 nov 2027", "26 nov 27", "in 1 year")] == ["2027-11-26"] * 3
    assert due("26 nov 15:00") == "2026-11-26T15:00:00+01:00"
    assert due("26 nov 9:00") == "2027-11-26T09:00:00+01:00"


def test_hours_pass_while_the_clocks_change() -> None:
    before = datetime(2027, 3, 28, 1, 30, tzinfo=BERLIN)
    assert due("in 1 hour", before) == "2027-03-28T01:30:00+00:00"
    assert due("in 1 day", before) == "2027-03-29"


def test_today_is_the_day_of_the_zone() -> None:
    late = datetime(2026, 11, 26, 23, 30, tzinfo=UTC)
    assert [due("today", late, zone) for zone in (ZoneInfo("UTC"), BERLIN)] == ["2026-11-26", "2026-11-27"]


def test_without_a_zone_it_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TZ", "America/New_York")
    time.tzset()
    try:
        assert due("tomorrow 9:00", zone=None) == "2026-11-27T09:00:00-05:00"
        assert due("1 jul 9:00", zone=None) == "2027-07-01T09:00:00-04:00"
        for gap, said in (("2027-03-14 02:30", "there is no 02:30"), ("2027-11-07 01:30", "happens twice")):
            with pytest.raises(UsageError, match=said):
                due(gap, zone=None)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("text", "past"), [("yesterday", True), ("3 days ago", True), ("today", False), ("1999-01-01", True)]
)
def test_what_is_past_is_said(text: str, past: bool) -> None:
    assert read_due_date(text, now=THURSDAY, zone=BERLIN).past is past


WORDS = [
    "tomorrow",
    "next",
    "fri",
    "in",
    "3",
    "days",
    "9:00",
    "at",
    "dec",
    "1",
    "+02:00",
    "2026",
    "noon",
    "/",
    "am",
    ",",
]


@settings(max_examples=examples(300), deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)))
def test_any_text_is_a_date_or_one_clear_error(text: str) -> None:
    try:
        said = datetime.fromisoformat(due(text)).isoformat()
    except UsageError as refused:
        said = refused.line()
    assert said
    assert said.isprintable()
