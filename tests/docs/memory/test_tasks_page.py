"""The page of tasks: its commands run, its due dates are read as it says, and it has every command and option."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import click
import pytest

from runtime.cli.task import task
from runtime.cli.task.due_dates import read_due_date
from runtime.errors import UsageError
from tests.cases import each_case
from tests.docs.shell import typed
from tests.lanes import LONG
from tests.runtime.daemon.running import running, write_program

PAGE = (Path(__file__).parents[3] / "docs" / "tasks.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (symbi .*)$", PAGE, re.MULTILINE)
WRITTEN = PAGE[PAGE.index("### Due dates in commands") :].partition("\n## ")[0]
DATES = [date for row in re.findall(r"^\| (`.*?) \|", WRITTEN, re.MULTILINE) for date in re.findall(r"`([^`]+)`", row)]
BERLIN = ZoneInfo("Europe/Berlin")
THURSDAY = datetime(2026, 11, 26, 6, tzinfo=UTC)
REFUSED = ["03/04", "4.12.", "5th", "tomorrow 9", "next week", "thursday", "today 17:30 CET"]


@each_case("date", DATES)
def test_every_due_date_on_the_page_is_read_on_each_day(date: str) -> None:
    assert len(DATES) > 10
    for now in (THURSDAY + timedelta(days=number) for number in range(5)):
        if date != f"{now:%A}".lower():
            assert not read_due_date(date, now=now, zone=BERLIN).past


@pytest.mark.parametrize("date", REFUSED)
def test_what_the_page_calls_a_guess_is_refused(date: str) -> None:
    assert f"`{date.removeprefix('today 17:30 ')}`" in WRITTEN
    with pytest.raises(UsageError) as refused:
        read_due_date(date, now=THURSDAY, zone=BERLIN)
    assert refused.value.hint


def test_every_command_and_option_is_on_the_page() -> None:
    named = set(re.findall(r"^\| `symbi task (\w+)", PAGE, re.MULTILINE))
    assert named == set(task.list_commands(click.Context(task)))
    options = set()
    for name in named:
        command = task.get_command(click.Context(task), name)
        assert command is not None
        options |= {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert {option for option in options if option not in PAGE} <= {"--root", "--yes"}


@LONG
def test_every_example_on_the_page_runs(tmp_path: Path) -> None:
    write_program(tmp_path)
    assert len(COMMANDS) > 3
    task_id = ""
    with running(tmp_path, "program"):
        for command in COMMANDS:
            done = typed(re.sub(r"\b09deca\b", task_id, command), tmp_path)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            if added := re.match(r"added (\w+)  Pay the rent  \(due \w{3} \d{4}-\d\d-\d\d 09:00\)\n$", done.stdout):
                task_id = added[1]
    assert done.stdout == "completed 1 task\n"
