"""The times that a question mentions ("last week", "in May 2023", "2023-05-03"), as spans in UTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple


class TimeSpan(NamedTuple):
    """From `start` (inclusive) to `end` (exclusive), both in UTC."""

    start: datetime
    end: datetime


_MONTHS = {
    name: number
    for number, names in enumerate(
        [
            "january|jan",
            "february|feb",
            "march|mar",
            "april|apr",
            "may",
            "june|jun",
            "july|jul",
            "august|aug",
            "september|sept|sep",
            "october|oct",
            "november|nov",
            "december|dec",
        ],
        start=1,
    )
    for name in names.split("|")
}
_WEEKDAYS = {
    name: n for n, name in enumerate(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])
}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The month in which a season of three months begins (meteorological seasons of the northern hemisphere)."""
_NUMBERS = {
    name: number
    for number, names in enumerate(
        ["a|an|one", "two|couple", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"],
        start=1,
    )
    for name in names.split("|")
}

_MONTH = f"(?P<month>{'|'.join(_MONTHS)})\\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)})(?: of)?"
_UNIT = r"(?P<unit>day|week|month|year)"
_SEASON = f"(?P<season>{'|'.join(_SEASONS)})"
_BEFORE_A_MONTH = r"(?:in|of|on|during|since|until|till|by|from|to|between|around|late|early|mid|last|this|and|end of)"


def spans(text: str, now: datetime) -> tuple[TimeSpan, ...]:
    """Return the times that `text` mentions, relative to `now` (aware). Impossible dates ("31 June") are ignored.

    A month, day or season without a year is the latest one that has begun. If a text names a day, month or year of the
    calendar, expressions relative to today ("last week before 3 May") are ignored.
    """
    lower = " ".join(text.lower().split())
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return tuple(dict.fromkeys(_matching_spans(lower, today, _CALENDAR) or _matching_spans(lower, today, _FROM_TODAY)))


Reading = Callable[[re.Match[str], datetime], TimeSpan]


def _matching_spans(text: str, today: datetime, forms: tuple[tuple[re.Pattern[str], Reading], ...]) -> list[TimeSpan]:
    """Return the spans of all forms; text that one form has matched is not matched again."""
    found = []
    for form, reading in forms:
        for match in form.finditer(text):
            try:
                found.append(reading(match, today))
            except (ValueError, OverflowError):
                continue
        text = form.sub("#", text)
    return found


def _day(match: re.Match[str], today: datetime) -> TimeSpan:
    month, day = _month_of(match), int(match["day"])
    start = datetime(int(match["year"]), month, day, tzinfo=UTC) if match["year"] else _latest(month, day, today)
    return TimeSpan(start, start + timedelta(days=1))


def _month_of(match: re.Match[str]) -> int:
    month = match["month"]
    return int(month) if month.isdigit() else _MONTHS[month]


def _latest(month: int, day: int, today: datetime) -> datetime:
    """Return the latest such day that has begun; a leap day may be eight years ago. Raises ValueError for a day that
    no calendar has."""
    for year in range(today.year, today.year - 9, -1):
        with suppress(ValueError):
            if (date := datetime(year, month, day, tzinfo=UTC)) <= today:
                return date
    raise ValueError("no such day")


def _month(match: re.Match[str], today: datetime) -> TimeSpan:
    month = _month_of(match)
    year = int(match["year"]) if match["year"] else today.year - (month > today.month)
    return TimeSpan(_first(year, month), _first(year, month + 1))


def _first(year: int, month: int) -> datetime:
    """Return the first day of a month; month 13 is the next January, month 0 the last December."""
    years, month = divmod(month - 1, 12)
    return datetime(year + years, month + 1, 1, tzinfo=UTC)


def _season(match: re.Match[str], today: datetime) -> TimeSpan:
    month = _SEASONS[match["season"]]
    if match["year"]:
        year = int(match["year"])
    else:
        year = today.year - (_first(today.year, month) > today)
        if match["which"] == "last" and _first(year, month + 3) > today:
            year -= 1
    return TimeSpan(_first(year, month), _first(year, month + 3))


def _year(match: re.Match[str], _today: datetime) -> TimeSpan:
    year = int(match["year"])
    return TimeSpan(_first(year, 1), _first(year, 13))


def _named_day(match: re.Match[str], today: datetime) -> TimeSpan:
    back = {"today": 0, "tonight": 0, "this morning": 0, "yesterday": 1, "last night": 1}
    back |= {"the day before yesterday": 2}
    start = today - timedelta(days=back[match["name"]])
    return TimeSpan(start, start + timedelta(days=1))


def _weekday(match: re.Match[str], today: datetime) -> TimeSpan:
    """Return the last such weekday before today."""
    start = today - timedelta(days=(today.weekday() - _WEEKDAYS[match["weekday"]] - 1) % 7 + 1)
    return TimeSpan(start, start + timedelta(days=1))


def _weekend(match: re.Match[str], today: datetime) -> TimeSpan:
    """Return Saturday and Sunday: "last" is over, "this" may be running or still to come."""
    saturday = today + timedelta(days=5 - today.weekday())
    if match["which"] != "this":
        saturday -= timedelta(days=7)
    return TimeSpan(saturday, saturday + timedelta(days=2))


def _whole(match: re.Match[str], today: datetime) -> TimeSpan:
    """Return a week, month or year of the calendar."""
    return _unit_ago(match["unit"], 0 if match["which"] == "this" else 1, today)


def _unit_ago(unit: str, count: int, today: datetime) -> TimeSpan:
    if unit == "day":
        start = today - timedelta(days=count)
        return TimeSpan(start, start + timedelta(days=1))
    if unit == "week":
        start = today - timedelta(days=today.weekday() + 7 * count)
        return TimeSpan(start, start + timedelta(days=7))
    if unit == "month":
        return TimeSpan(_first(today.year, today.month - count), _first(today.year, today.month - count + 1))
    return TimeSpan(_first(today.year - count, 1), _first(today.year - count, 13))


def _count(match: re.Match[str]) -> int:
    count = match["count"]
    return int(count) if count.isdigit() else _NUMBERS[count]


def _ago(match: re.Match[str], today: datetime) -> TimeSpan:
    return _unit_ago(match["unit"], _count(match), today)


def _past(match: re.Match[str], today: datetime) -> TimeSpan:
    """Return the last so many days, weeks and so on up to now, in whole days."""
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[match["unit"]] * _count(match)
    return TimeSpan(today - timedelta(days=days), today + timedelta(days=1))


def _form(pattern: str, reading: Reading) -> tuple[re.Pattern[str], Reading]:
    return re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])"), reading


_CALENDAR = (
    _form(r"(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)(?:t[\d:.]+(?:z|[+-]\d\d:\d\d)?)?", _day),
    _form(rf"{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?", _day),
    _form(rf"{_MONTH} (?:the )?{_DAY}(?:,? {_YEAR})?", _day),
    _form(r"(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)", _month),
    _form(rf"{_MONTH},?(?: of)? {_YEAR}", _month),
    _form(rf"{_SEASON},?(?: of)? {_YEAR}(?P<which>)", _season),
    _form(rf"{_BEFORE_A_MONTH} {_MONTH}(?P<year>)", _month),
    _form(rf"(?:in|of|during|since|until|till|by|from|to|around|year) {_YEAR}", _year),
)
_FROM_TODAY = (
    _form(r"(?P<name>the day before yesterday|yesterday|today|tonight|this morning|last night)", _named_day),
    _form(rf"{_COUNT} {_UNIT}s? ago", _ago),
    _form(rf"(?:last|past|previous|these) {_COUNT} {_UNIT}s?", _past),
    _form(r"(?P<which>last|past|previous|this) weekend", _weekend),
    _form(rf"(?P<which>last|past|previous|this) {_UNIT}", _whole),
    _form(rf"(?:in |during |over )?(?:the )?(?P<which>last|this|past|the) {_SEASON}(?P<year>)", _season),
    _form(rf"(?:on|last|this|since) (?P<weekday>{'|'.join(_WEEKDAYS)})", _weekday),
)
