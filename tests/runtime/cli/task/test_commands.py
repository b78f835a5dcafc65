"""`symbi task`: with and without a daemon, for a user by name, and by the URL of the calendar feed."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from icalendar import Calendar

from runtime.cli.task.client import TaskClient
from runtime.cli.task.read import PAGE, _search_tasks
from runtime.daemon.process.root import Root
from runtime.tasks.task import OPEN
from tests.lanes import LONG
from tests.runtime.daemon.running import Daemon, running, symbi, write_program
from tests.runtime.daemon.terminal import terminal
from tests.runtime.daemon.v1 import ask


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("tasks")
    write_program(root)
    with running(root, "program") as started:
        for name in ("ada", "bob", "eve", "kim", "lee"):
            assert started.symbi("user", "add", name).returncode == 0
        yield started


def shown(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(done: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    assert (done.returncode, done.stdout) == (code, ""), done.stdout + done.stderr
    for text in said:
        assert text in done.stderr, done.stderr


def test_a_task_is_added_changed_completed_and_deleted(daemon: Daemon) -> None:
    given = ("--due", "2030-12-01", "--priority", "urgent", "--tag", "home", "--description", "-", "--json")
    made = shown(daemon.symbi("task", "add", "Pay", "rent", *given, input="Details.\n"))
    assert (made["title"], made["due_date"], made["description"]) == ("Pay rent", "2030-12-01", "Details.")
    assert (made["priority"], made["tags"], made["source"]) == ("urgent", ["home"], "user")
    name = made["task_id"][-8:].upper()
    edited = ("--due", "2030-12-02 9:00 +02:00", "--status", "in_progress", "--clear", "description", "--clear", "tags")
    changed = shown(daemon.symbi("task", "edit", name, *edited, "--title", "Pay the rent", "--json"))
    assert (changed["due_date"], changed["description"], changed["tags"]) == ("2030-12-02T07:00:00Z", None, [])
    other = shown(daemon.symbi("task", "add", "Other", "--json"))
    assert daemon.symbi("task", "done", name, other["task_id"]).stdout == "completed 2 tasks\n"
    history = shown(daemon.symbi("task", "show", name, "--json"))["history"]
    assert [entry["source"] for entry in history] == ["user"] * 3
    text = daemon.symbi("task", "show", name).stdout
    assert "title: Pay rent → Pay the rent" in text
    assert re.search(r"^status +completed$", text, re.MULTILINE)
    refused(daemon.symbi("task", "rm", name), 2, "Delete “Pay the rent”?", "--yes")
    assert daemon.symbi("task", "rm", name, other["task_id"], "--yes").stdout == "deleted 2 tasks\n"
    assert shown(daemon.symbi("task", "list", "--all", "--json"))["tasks"] == []


def test_the_list_begins_with_what_is_overdue(daemon: Daemon) -> None:
    for title, *options in (
        ("later", "--due", "2031-01-02"),
        ("sooner", "--due", "2031-01-01 12:00", "--tag", "work"),
        ("none", "--priority", "high"),
        ("late", "--due", "2001-01-01", "--tag", "work", "--tag", "home"),
    ):
        assert daemon.symbi("task", "add", title, *options, "--user", "ada").returncode == 0

    def titles(*options: str) -> list[str]:
        rows = shown(daemon.symbi("task", "list", "--user", "ada", "--json", *options))["tasks"]
        return [row["title"] for row in rows]

    assert titles() == ["late", "sooner", "later", "none"]
    assert titles("--tag", "work", "--tag", "home") == ["late"]
    assert titles("--priority", "high") == ["none"]
    late = shown(daemon.symbi("task", "list", "--user", "ada", "--json"))["tasks"][0]
    assert daemon.symbi("task", "done", late["task_id"], "--user", "ada").returncode == 0
    assert titles() == ["sooner", "later", "none"]
    assert titles("--all")[-1] == "late"
    assert titles("--status", "completed") == ["late"]
    assert titles("--limit", "1") == ["sooner"]
    assert titles("--search", "sooner") == ["sooner"]
    assert titles("--search", "late", "--all") == ["late"]
    assert titles("--search", "late") == []


class Ended(TaskClient):
    """A client that finds a hundred completed tasks, and one that is open only if it searches for these."""

    def call(self, name: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        ended = [{"task_id": str(number), "status": "completed"} for number in range(PAGE)]
        status = (parameters or {}).get("status")
        return {"tasks": [{"task_id": "open", "status": status}] if status == "pending" else ended, "notes": []}


def test_completed_tasks_do_not_hide_open_ones_from_a_search() -> None:
    client = Ended(Root(Path("unused")), None)
    assert _search_tasks(client, "rent", OPEN, {}) == [{"task_id": "open", "status": "pending"}]
    assert len(_search_tasks(client, "rent", (None,), {})) == PAGE


def test_a_table_fits_80_columns_and_shows_what_is_overdue_in_red(daemon: Daemon) -> None:
    title = "Write " + "many words " * 20
    assert daemon.symbi("task", "add", title, "--due", "2001-01-01", "--user", "lee").returncode == 0
    shows = terminal(daemon, "task", "list", "--user", "lee", COLUMNS="80", LINES="24", NO_COLOR="")
    lines = [re.sub(r"\x1b\[\d*m", "", line) for line in shows.splitlines()]
    assert max(map(len, lines)) <= 80
    assert "overdue" in shows
    assert "\x1b[31m" in shows


def test_tasks_are_those_of_the_user_that_is_named(daemon: Daemon) -> None:
    made = shown(daemon.symbi("task", "add", "Of Bob", "--user", "bob", "--json"))
    refused(daemon.symbi("task", "show", made["task_id"]), 2, "there is no such task")
    refused(daemon.symbi("task", "show", made["task_id"][-6:]), 2, "no task has an id that ends with")
    refused(daemon.symbi("task", "done", made["task_id"][-6:], "--user", "ada"), 2, "no task has an id")
    refused(daemon.symbi("task", "list", "--user", "nobody"), 2, "nobody")


def test_times_and_days_are_those_of_the_user(daemon: Daemon) -> None:
    def zone(name: str) -> None:
        assert daemon.symbi("user", "set", "tom", "--timezone", name).returncode == 0

    def listed() -> list[str]:
        lines = [line for line in daemon.symbi("task", "list", "--user", "tom").stdout.splitlines() if "2030" in line]
        return [" ".join(line.split()[2:-3]) for line in lines]

    assert daemon.symbi("user", "add", "tom").returncode == 0
    zone("America/Phoenix")
    for title, due in (("Day", "2030-12-01"), ("Evening", "2030-12-01 21:00"), ("Next", "2030-12-02 0:30")):
        assert daemon.symbi("task", "add", title, "--due", due, "--user", "tom").returncode == 0
    # The end of a day is after its evening, which is on the next day in UTC.
    assert listed() == ["Sun 2030-12-01 21:00", "Sun 2030-12-01", "Mon 2030-12-02 00:30"]
    rows = shown(daemon.symbi("task", "list", "--user", "tom", "--json"))["tasks"]
    assert [row["due_date"] for row in rows] == ["2030-12-02T04:00:00Z", "2030-12-01", "2030-12-02T07:30:00Z"]
    zone("Asia/Tokyo")
    assert listed() == ["Sun 2030-12-01", "Mon 2030-12-02 13:00", "Mon 2030-12-02 16:30"]
    edited = daemon.symbi("task", "edit", rows[0]["task_id"], "--due", "2030-12-03 9:00", "--user", "tom")
    assert "(due Tue 2030-12-03 09:00)" in edited.stdout
    history = daemon.symbi("task", "show", rows[0]["task_id"], "--user", "tom").stdout
    assert "due_date: Mon 2030-12-02 13:00 → Tue 2030-12-03 09:00" in history


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "x", "--due", "03/04"), "several ways"),
        (("add", "x", "--due", "soon"), "tomorrow 9:00"),
        (("done", "xyz"), "names no task"),
        (("edit", "abcdef"), "nothing to change"),
        (("edit", "abcdef", "--due", "today", "--clear", "due"), "due is given and cleared"),
        (("list", "--all", "--status", "pending"), "exclude each other"),
        (("feed", "--off", "--rotate"), "rotated or switched off"),
    ],
)
def test_what_is_wrong_is_one_clear_line(daemon: Daemon, arguments: tuple[str, ...], said: str) -> None:
    refused(daemon.symbi("task", *arguments), 2, said)


def test_a_due_date_in_the_past_is_said(daemon: Daemon) -> None:
    done = daemon.symbi("task", "add", "Late", "--due", "yesterday", "--user", "eve")
    assert done.returncode == 0
    assert "is in the past: the task is overdue" in done.stderr


def read(url: str) -> list[str]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return [str(each["SUMMARY"]) for each in Calendar.from_ical(answer.read()).subcomponents]


def test_a_calendar_program_reads_the_feed_until_its_url_changes(daemon: Daemon) -> None:
    assert daemon.symbi("task", "add", "Dated", "--due", "2030-12-01", "--user", "kim").returncode == 0
    assert daemon.symbi("task", "add", "Plain", "--user", "kim").returncode == 0
    done = daemon.symbi("task", "feed", "--user", "kim")
    url, token = done.stdout.strip(), done.stdout.split("/")[-1].split(".")[0]
    assert token not in done.stderr
    events = daemon.symbi("task", "feed", "--user", "kim", "--events").stdout.strip()
    assert (read(url), read(events)) == (["Dated", "Plain"], ["Dated"])
    # The token opens the feed alone.
    assert ask(daemon, token, "GET", "/v1/tasks").status == 401
    assert ask(daemon, token, "GET", "/v1/webhooks").status == 401
    assert daemon.request("GET", "/metrics", to="admin").body.decode().count(token) == 0
    assert daemon.symbi("task", "feed", "--user", "kim", "--rotate").stdout.strip() != url
    with pytest.raises(HTTPError, match="404"):
        read(url)
    assert daemon.symbi("user", "remove", "kim", "--yes").returncode == 0
    assert token not in daemon.log.read_text()
    # Only callers with a token reach what is beside it.
    assert daemon.request("GET", "/v1/tasks", to="admin").status == 401
    assert daemon.request("GET", "/v1/tasks/feedx", to="admin").status == 401
    # The listener that everyone reaches has no feed.
    assert daemon.request("GET", "/v1/tasks/feed/x.ics").status == 404


@LONG
def test_tasks_are_there_without_a_daemon(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program"):
        pass
    assert symbi("task", "add", "Call Ada", root=tmp_path).returncode == 0
    assert [row["title"] for row in shown(symbi("task", "list", "--json", root=tmp_path))["tasks"]] == ["Call Ada"]
    done = symbi("task", "feed", root=tmp_path)
    assert "no daemon is running" in done.stderr
    with running(tmp_path, "program") as daemon:
        path = "/" + done.stdout.strip().split("/", 3)[3]
        assert b"SUMMARY:Call Ada" in daemon.request("GET", path, to="admin").body
