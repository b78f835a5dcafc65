"""Tasks as an iCalendar object (RFC 5545): to-dos, or events for the programs that show only these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from runtime.tasks.task import Due, Priority, Status, Task

if TYPE_CHECKING:
    from icalendar import Calendar, Event, Todo

CONTENT_TYPE: Final = "text/calendar; charset=utf-8"
FORMS: Final = ("todos", "events")
Form = Literal["todos", "events"]
LONGEST_DESCRIPTION: Final = 2000
"""Characters of a description in a calendar; a longer one is cut."""

_STATUS: Final[Mapping[Status, str]] = MappingProxyType(
    {
        "pending": "NEEDS-ACTION",
        "in_progress": "IN-PROCESS",
        "completed": "COMPLETED",
        "cancelled": "CANCELLED",
    }
)
_PRIORITY: Final[Mapping[Priority, int]] = MappingProxyType({"urgent": 1, "high": 3, "normal": 5, "low": 9})
_EVENT_LENGTH: Final = timedelta(minutes=30)
"""Length of an event with a time of day, so that it has a height in a calendar."""
_REFRESH: Final = timedelta(minutes=15)
_DAY: Final = timedelta(days=1)
_KEPT: Final = "\n\t\u200c\u200d"


def calendar_of(tasks: Iterable[Task], form: Form) -> bytes:
    """Return the calendar: a VTODO for each task, or with `events` a VEVENT for each that has a due date.

    The result depends on the tasks alone. Loads the library when first called; to be called in a thread.
    """
    from icalendar import Calendar

    calendar = Calendar()
    calendar.add("prodid", "-//Symbiont//Tasks//EN")
    calendar.add("version", "2.0")
    calendar.add("method", "PUBLISH")
    # RFC 7986, and the older names that programs read.
    calendar.add("name", "Tasks")
    calendar.add("x-wr-calname", "Tasks")
    calendar.add("refresh-interval", _REFRESH, parameters={"VALUE": "DURATION"})
    calendar.add("x-published-ttl", "PT15M")
    _add_all(calendar, tasks, form)
    return bytes(calendar.to_ical())


def _add_all(calendar: Calendar, tasks: Iterable[Task], form: Form) -> None:
    for task in tasks:
        if form == "todos":
            calendar.add_component(_todo(task))
        elif task.due is not None:
            calendar.add_component(_event(task, task.due))


def _todo(task: Task) -> Todo:
    from icalendar import Todo

    todo = Todo()
    todo.add("uid", task.id)
    _add_common(todo, task)
    todo.add("status", _STATUS[task.status])
    if task.due is not None:
        todo.add("due", _moment(task.due))
    if task.completed_at is not None:
        todo.add("completed", _time(task.completed_at))
        todo.add("percent-complete", 100)
    return todo


def _event(task: Task, due: Due) -> Event:
    from icalendar import Event

    event = Event()
    # A program may show both forms: a UID is of one component.
    event.add("uid", f"due-{task.id}")
    _add_common(event, task)
    event.add("status", "CANCELLED" if task.status == "cancelled" else "CONFIRMED")
    event.add("transp", "TRANSPARENT")
    begin = _moment(due)
    event.add("dtstart", begin)
    event.add("dtend", begin + (_EVENT_LENGTH if isinstance(begin, datetime) else _DAY))
    return event


def _add_common(component: Todo | Event, task: Task) -> None:
    # Of an object that is published, DTSTAMP is the time of its last change (RFC 5545 section 3.8.7.2).
    component.add("dtstamp", _time(task.updated_at))
    component.add("created", _time(task.created_at))
    component.add("last-modified", _time(task.updated_at))
    component.add("sequence", task.version - 1)
    component.add("summary", " ".join(_text(task.title).split()))
    if task.description:
        component.add("description", _text(_shortened(task.description)))
    component.add("priority", _PRIORITY[task.priority])
    if task.tags:
        component.add("categories", [" ".join(_text(tag).split()) for tag in task.tags])


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[:LONGEST_DESCRIPTION]}…"


def _text(text: str) -> str:
    """Return `text` without the characters that RFC 5545 forbids, that parsers take for the end of a line, or that
    change the direction of what follows; U+FFFD is in their place."""
    lines = text.replace("\r\n", "\n")
    return "".join(each if each.isprintable() or each in _KEPT else "\ufffd" for each in lines)


def _moment(due: Due) -> date | datetime:
    return _time(due.at) if due.day is None else due.day


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds // 1000, UTC)
