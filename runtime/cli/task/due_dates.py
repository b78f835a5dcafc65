"""Due dates of tasks, as people write them in English: `tomorrow 9:00`, `next friday`, `in 3 days`, `1 Dec 17:30`.

The library dateparser reads the words. What it would guess or skip is refused before and after: numbers whose order is
unknown (03/04), words that it does not know, a month without a day, a time of day that does not exist.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from runtime.errors import UsageError

FORMS: Final = 'write it like "tomorrow 9:00", "next friday", "in 3 days", "1 Dec 17:30" or 2026-12-01'
LONGEST: Final = 100
"""Maximum characters of a date."""

_ISO_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_ISO_TIME: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(?: ?(Z|[+-]\d{2}:\d{2}))?", re.ASCII | re.IGNORECASE
)
_OFFSET: Final = re.compile(r"(?:\s(?:utc|gmt)?|\b(?:utc|gmt))?([+-]\d{2}):?(\d{2})$|\s*\b(?:utc|gmt|z)$", re.ASCII)
_NUMBERS: Final = re.compile(r"\b\d+\s*[./-]\s*\d+(?:\s*[./-]\s*\d*)?|\b\d+\.(?!\d)", re.ASCII)
_CLOCK: Final = re.compile(r"\b\d{1,2}:\d{2}\b|\b\d{1,2}\s*[ap]m\b|\bnoon\b", re.ASCII)
_CLOCK_ALONE: Final = re.compile(r"(?:at )?(?:\d{1,2}(?::\d{2}){0,2} ?(?:[ap]m)?|noon)", re.ASCII)
_DURATION: Final = re.compile(r"\b(?:hours?|minutes?|hrs?|mins?|\d+\s*[hm])\b|\bnow\b", re.ASCII)
_WEEKS: Final = re.compile(r"\b(?:\d+|an?|one)\s+weeks?\b", re.ASCII)
_MONTHS_OR_YEARS: Final = re.compile(r"\b(?:\d+|an?|one)\s+(?:months?|years?)\b", re.ASCII)
_WORD: Final = re.compile(r"[^\W\d_]+")
_WEEKDAY: Final = re.compile(r"\b(mon(?!th)|tue|wed|thu|fri|sat|sun)")
_NAMED_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DAY_NUMBER: Final = r"\d{1,2}(?:st|nd|rd|th)?"
_UNIT: Final = r"(?:h|hrs?|hours?|m|mins?|minutes?|d|days?|weeks?|months?|years?)"
_READ_NUMBERS: Final = re.compile(
    rf"\b\d{{1,2}}:\d{{2}}(?::\d{{2}})?\b|\b\d{{1,2}}\s*[ap]m\b|\b\d+\s*{_UNIT}\b"
    rf"|\b{_DAY_NUMBER}\s+(?:of\s+)?{_NAMED_MONTH}(?:\s+\d{{2,4}}\b(?!:))?"
    rf"|\b{_NAMED_MONTH}\s+{_DAY_NUMBER}\b(?!:)(?:\s+\d{{2,4}}\b(?!:))?|\b{_NAMED_MONTH}\s+\d{{4}}\b"
)
_MONTH: Final = re.compile(rf"\b{_NAMED_MONTH}\b")
_NUMBER: Final = re.compile(r"\d+")
_LARGEST_NUMBER: Final = 9999

_KNOWN: Final = re.compile(
    r"""
    today | tomorrow | yesterday | tonight | now | ago | days? | after | in | at | on | of | the | next | this | last
    | and | an? | one | noon | morning | afternoon | evening | [ap]m | st | nd | rd | th | h | m | d | hrs? | hours?
    | mins? | minutes? | weeks? | months? | years? | mon(?:day)? | tue(?:s|sday)? | wed(?:nesday)?
    | thu(?:r|rs|rsday)? | fri(?:day)? | sat(?:urday)? | sun(?:day)? | jan(?:uary)? | feb(?:ruary)? | mar(?:ch)?
    | apr(?:il)? | may | june? | july? | aug(?:ust)? | sept? | september | oct(?:ober)? | nov(?:ember)? | dec(?:ember)?
    """,
    re.VERBOSE,
)
"""The words that are read."""


class DueDate(NamedTuple):
    """A due date. `text`: for the tools, `2026-12-01` for a day, at whose end the task is due, else a time in
    RFC 3339 with its offset. `shown`: for a person. `past`: it is before now."""

    text: str
    shown: str
    past: bool


def read_due_date(given: str, *, now: datetime, zone: ZoneInfo | None) -> DueDate:
    """Read a date or a time. `now`: with an offset. `zone`: of what has no offset; None: that of the
    machine. Raises UsageError."""
    text = " ".join(given.split())
    if not text or len(text) > LONGEST or not text.isprintable():
        raise UsageError("this is not a date", hint=FORMS)
    here = now.astimezone(zone)
    if (day := _iso_day(text)) is not None:
        return _day(day, here)
    if (found := _iso_time(text)) is not None:
        return _time(found, here, zone)
    return _parse_words(text, here, zone)


def _iso_day(text: str) -> date | None:
    if not _ISO_DAY.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"the calendar has no day {text}", hint=FORMS) from None


def _iso_time(text: str) -> datetime | None:
    match = _ISO_TIME.fullmatch(text)
    if match is None:
        return None
    day, clock, offset = match.groups()
    clock = clock if clock[1] != ":" else f"0{clock}"
    try:
        return datetime.fromisoformat(f"{day}T{clock}{(offset or '').upper()}")
    except ValueError:
        raise UsageError(f"{text}: there is no such time", hint=FORMS) from None


def _parse_words(given: str, here: datetime, zone: ZoneInfo | None) -> DueDate:
    text, offset = _without_offset(given.lower().replace(",", " "))
    _refuse_guesses(given, text)
    weekday = _WEEKDAY.search(text)
    if weekday is not None and weekday[1] == f"{here:%a}".lower() and not {"next", "last"} & set(text.split()):
        raise UsageError(f"{given!r} may be today or in a week", hint='write "today", or "in 7 days"')
    # A duration counts the hours that pass, also over a change of the clocks.
    counted = bool(_DURATION.search(text))
    base = here.astimezone(UTC) if counted else here
    alone = bool(_CLOCK_ALONE.fullmatch(text))
    # On the last day of a month the library takes a time that has passed for one of another month.
    read = _parser(base.replace(tzinfo=None)).get_date_data(f"today {text}" if alone else text)
    found: datetime | None = read.date_obj
    if found is None:
        raise UsageError(f"{given!r} cannot be read as a date", hint=FORMS)
    if _CLOCK.search(text) and read.period != "time":
        raise UsageError(f"{given!r}: there is no such time of day", hint="such as 17:30 or 5 pm")
    whole = {"week": _WEEKS, "month": _MONTHS_OR_YEARS, "year": _MONTHS_OR_YEARS}.get(read.period)
    if whole is not None and not whole.search(text):
        raise UsageError(f"{given!r} names no day", hint=FORMS)
    if counted:
        return _time(found.replace(tzinfo=UTC, microsecond=0), here, zone)
    if read.period not in {"time", "part_of_day"}:
        if offset is not None:
            raise UsageError(f"{given!r} has an offset, but no time of day", hint='such as "today 18:00 +02:00"')
        return _day(_or_today(found.date(), text, here.date()), here)
    there = here
    if offset is not None:
        found = datetime.fromisoformat(f"{found:%Y-%m-%dT%H:%M:%S}{offset}")
        there = here.astimezone(found.tzinfo)
    if alone:
        day = there.date() + timedelta(days=found.time() < there.time())
        found = datetime.combine(day, found.timetz())
    return _time(found, here, zone)


def _or_today(day: date, text: str, today: date) -> date:
    """Return the day of a text with a day of a month; without a year the library takes today for that of next year."""
    is_today = (day.month, day.day) == (today.month, today.day)
    return today if is_today and _MONTH.search(text) and len(_NUMBER.findall(text)) == 1 else day


def _without_offset(text: str) -> tuple[str, str | None]:
    """Return the text and the offset at its end, if it has one."""
    match = _OFFSET.search(text)
    if match is None or not _CLOCK.search(text):
        return text, None
    return text[: match.start()].strip(), f"{match[1]}:{match[2]}" if match[1] else "+00:00"


def _refuse_guesses(given: str, text: str) -> None:
    """Refuse what the library would guess or skip."""
    if (numbers := _NUMBERS.search(text)) is not None:
        raise UsageError(
            f"{numbers[0].strip()!r} in {given!r} may be read in several ways",
            hint="write the month as a word (3 Apr), or year, month and day (2027-04-03)",
        )
    if (unknown := next((word for word in _WORD.findall(text) if not _KNOWN.fullmatch(word)), None)) is not None:
        hint = "midnight is 0:00 of the day that begins" if unknown == "midnight" else FORMS
        if _CLOCK.search(text):
            hint = "a time zone is written as an offset (17:30 +01:00); else " + FORMS
        raise UsageError(f"the word {unknown!r} in {given!r} is unknown", hint=hint)
    if not _WORD.search(text) and not _CLOCK.search(text):
        raise UsageError(f"{given!r} is only a number", hint=FORMS)
    if (left := _NUMBER.search(_READ_NUMBERS.sub(" ", text))) is not None:
        raise UsageError(f"what {left[0]} is in {given!r} is not said", hint="such as 9:00, 9 am, 9 Dec or 9 days")
    if any(len(number) > 4 or int(number) > _LARGEST_NUMBER for number in _NUMBER.findall(text)):
        raise UsageError(f"{given!r} is too far away", hint=FORMS)


def _parser(base: datetime) -> Any:
    """Return the library's parser. `base`: what is now, without a zone."""
    # Loaded only for words.
    from dateparser.date import DateDataParser

    settings = {"PREFER_DATES_FROM": "future", "RELATIVE_BASE": base, "RETURN_TIME_AS_PERIOD": True}
    return DateDataParser(languages=["en"], settings=settings)


def _day(day: date, here: datetime) -> DueDate:
    return DueDate(day.isoformat(), f"the end of {day:%a %Y-%m-%d}", day < here.date())


def _time(found: datetime, here: datetime, zone: ZoneInfo | None) -> DueDate:
    due = found if found.tzinfo is not None else _in_zone(found, zone)
    try:
        local = due.astimezone(zone)
    except OverflowError:
        raise UsageError("this is too far away", hint=FORMS) from None
    return DueDate(due.isoformat(), f"{local:%a %Y-%m-%d %H:%M %z}", due < here)


def _in_zone(found: datetime, zone: ZoneInfo | None) -> datetime:
    """Return a time of day in a zone. Raises UsageError for one that the clocks skip or show twice."""
    first, second = (_aware(found, zone, fold) for fold in (0, 1))
    if first.timestamp() == second.timestamp():
        return first
    where = "here" if zone is None else f"in {zone}"
    if first.astimezone(UTC).astimezone(zone).replace(tzinfo=None, fold=0) != found.replace(fold=0):
        raise UsageError(
            f"there is no {found:%H:%M} on {found:%Y-%m-%d} {where}: the clocks are put forward",
            hint="write another time, or give the offset",
        )
    raise UsageError(
        f"{found:%H:%M} on {found:%Y-%m-%d} happens twice {where}: the clocks are put back",
        hint=f"say which with the offset: {first.isoformat(' ', 'minutes')} or {second.isoformat(' ', 'minutes')}",
    )


def _aware(found: datetime, zone: ZoneInfo | None, fold: int) -> datetime:
    at = found.replace(fold=fold)
    return at.astimezone() if zone is None else at.replace(tzinfo=zone)
