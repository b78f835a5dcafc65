"""Tasks as a calendar: what programs read of them, whatever is in their texts."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from icalendar import Calendar

from runtime.tasks.calendar import LONGEST_DESCRIPTION, Form, calendar_of
from runtime.tasks.task import Due, Task
from tests.lanes import examples

ID = "019ac0e2-5f00-7000-8000-00000000000a"
AT = 1_796_146_200_000
"""2026-12-01T17:30:00Z."""
DAY = date(2026, 12, 1)


def task(**changes: Any) -> Task:
    usual: dict[str, Any] = {
        "id": ID,
        "user_id": "owner",
        "title": "Pay rent",
        "description": None,
        "status": "pending",
        "priority": "normal",
        "due": None,
        "tags": (),
        "source": "user",
        "created_by_agent": None,
        "origin_run_id": None,
        "updated_source": "user",
        "updated_by_agent": None,
        "updated_run_id": None,
        "created_at": AT - 1000,
        "updated_at": AT,
        "completed_at": None,
        "said_at": None,
        "part": 0,
        "version": 3,
    }
    return Task(**{**usual, **changes})


def read(*tasks: Task, form: Form = "todos") -> list[Any]:
    """Return the components of the calendar, read by its parser."""
    body = calendar_of(tasks, form)
    assert max(map(len, body.split(b"\r\n"))) <= 75
    return list(Calendar.from_ical(body).subcomponents)


def test_a_task_is_a_todo_that_keeps_its_identity() -> None:
    (todo,) = read(task(due=Due(AT, None), tags=("a", "b,c"), description="One;\ntwo,", priority="urgent"))
    assert todo.name == "VTODO"
    assert (todo["UID"], todo["SUMMARY"], todo["DESCRIPTION"]) == (ID, "Pay rent", "One;\ntwo,")
    assert todo.decoded("DUE") == datetime(2026, 12, 1, 17, 30, tzinfo=UTC)
    assert todo.decoded("DTSTAMP") == todo.decoded("LAST-MODIFIED") == datetime.fromtimestamp(AT / 1000, UTC)
    assert (todo["SEQUENCE"], todo["STATUS"], todo["PRIORITY"]) == (2, "NEEDS-ACTION", 1)
    assert list(todo.categories) == ["a", "b,c"]


def test_a_task_of_a_day_is_due_on_that_day() -> None:
    (todo,) = read(task(due=Due(AT, DAY)))
    assert todo.decoded("DUE") == DAY
    assert todo["DUE"].params["VALUE"] == "DATE"


def test_events_are_the_tasks_with_a_due_date() -> None:
    rows = [task(), task(due=Due(AT, None)), task(due=Due(AT, DAY), status="cancelled")]
    timed, day = read(*rows, form="events")
    assert (timed.name, timed["UID"]) == ("VEVENT", f"due-{ID}")
    assert timed.decoded("DTSTART") == datetime(2026, 12, 1, 17, 30, tzinfo=UTC)
    assert timed.decoded("DTEND") > timed.decoded("DTSTART")
    assert (day.decoded("DTSTART"), day.decoded("DTEND")) == (DAY, date(2026, 12, 2))
    assert (timed["STATUS"], day["STATUS"]) == ("CONFIRMED", "CANCELLED")


@pytest.mark.parametrize(
    ("status", "shown"),
    [("in_progress", "IN-PROCESS"), ("completed", "COMPLETED"), ("cancelled", "CANCELLED")],
)
def test_a_todo_has_the_status_of_the_task(status: str, shown: str) -> None:
    completed = AT if status == "completed" else None
    (todo,) = read(task(status=status, completed_at=completed))
    assert todo["STATUS"] == shown
    assert ("COMPLETED" in todo) == (status == "completed")


def test_the_same_tasks_are_the_same_bytes() -> None:
    assert calendar_of([task()], "todos") == calendar_of([task()], "todos")


HOSTILE = 'x\r\nEND:VTODO\r\nBEGIN:VEVENT\nUID:1;,\\n"\x00\x1b[31m\u202e\u2028\x85\ud800\x7f'


@pytest.mark.parametrize("form", ["todos", "events"])
def test_a_text_cannot_end_its_line(form: Form) -> None:
    hostile = task(title=HOSTILE, description=HOSTILE, tags=(HOSTILE,), due=Due(AT, None))
    body = calendar_of([hostile], form)
    assert [line for line in body.splitlines() if line.startswith((b"BEGIN", b"END"))] == [
        b"BEGIN:VCALENDAR",
        *([b"BEGIN:VTODO", b"END:VTODO"] if form == "todos" else [b"BEGIN:VEVENT", b"END:VEVENT"]),
        b"END:VCALENDAR",
    ]
    assert not {*body} & {*range(32), 127} - {10, 13}
    assert not any(each in body.decode() for each in "\u202e\u2028\x85")
    (component,) = read(hostile, form=form)
    assert component["SUMMARY"].startswith('x END:VTODO BEGIN:VEVENT UID:1;,\\n"')


@settings(max_examples=examples(100))
@given(st.text(st.characters(), max_size=300), st.text(st.characters(), max_size=300))
def test_any_text_is_read_as_one_component(title: str, description: str) -> None:
    (todo,) = read(task(title=title, description=description, tags=(title,)))
    assert todo["UID"] == ID


def test_a_long_description_is_cut() -> None:
    (todo,) = read(task(description="é" * 10_000))
    assert len(todo["DESCRIPTION"]) == LONGEST_DESCRIPTION + 1


def test_khal_imports_the_events(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        f"[calendars]\n[[tasks]]\npath = {tmp_path}/calendar\n[locale]\nlocal_timezone = UTC\ndefault_timezone = UTC\n"
        "timeformat = %H:%M\ndateformat = %Y-%m-%d\nlongdateformat = %Y-%m-%d\ndatetimeformat = %Y-%m-%d %H:%M\n"
        f"longdatetimeformat = %Y-%m-%d %H:%M\n[sqlite]\npath = {tmp_path}/khal.db\n"
    )
    (tmp_path / "calendar").mkdir()
    (tmp_path / "tasks.ics").write_bytes(
        calendar_of([task(title="Pay; rent", due=Due(AT, None)), task(id="other", due=Due(AT, DAY))], "events")
    )

    def khal(*arguments: str) -> str:
        command = [str(Path(sys.executable).parent / "khal"), "-c", str(tmp_path / "config"), *arguments]
        home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
        done = subprocess.run(command, env=os.environ | home, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    khal("import", "--batch", "-a", "tasks", str(tmp_path / "tasks.ics"))
    listed = khal("list", "2026-12-01", "2d", "--format", "{start-time} {title}", "--day-format", "{date}")
    assert listed.split("\n") == ["2026-12-01", " Pay rent", "17:30 Pay; rent", ""]
