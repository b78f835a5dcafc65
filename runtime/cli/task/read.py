"""`symbi task list`, `show` and `feed`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from runtime.cli.client import find_root
from runtime.cli.task.client import PRIORITIES, STATUSES, TaskClient, due_text, moment, short_ids, task_colour
from runtime.cli.terminal.output import (
    beginning,
    json_option,
    local_time,
    print_table,
    root_option,
    subject_option,
    user_option,
)
from runtime.cli.terminal.screen import echo, echo_json, echo_text, style
from runtime.cli.tool_command import tool_command
from runtime.errors import UsageError
from runtime.tasks.task import OPEN

PAGE: Final = 100
LOOKED_AT: Final = 1000
"""Tasks of one status that are read at most, to be put in the order of their due dates."""


@click.command("list", short_help="List open tasks, the next due first.")
@click.option("--search", metavar="WORDS", help="Only tasks that are about these words, the best fit first.")
@click.option("--status", type=click.Choice(STATUSES), help="Only tasks with this status.")
@click.option("--all", "every", is_flag=True, help="Also completed and cancelled tasks.")
@click.option("--priority", type=click.Choice(PRIORITIES), help="Only tasks of this priority.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Only tasks with this tag. Repeatable: with all.")
@click.option(
    "--limit", default=50, show_default=True, metavar="N", type=click.IntRange(1, LOOKED_AT), help="At most N tasks."
)
@subject_option("Only tasks of")
@user_option("The tasks of this user.")
@root_option
@json_option
def list_(
    *,
    search: str | None,
    status: str | None,
    every: bool,
    priority: str | None,
    tags: tuple[str, ...],
    limit: int,
    subject: str | None,
    user: str | None,
    root: Path | None,
    as_json: bool,
) -> None:
    """List the open tasks of a user: overdue ones first, then by due date and priority."""
    if status is not None and every:
        raise UsageError("--status and --all exclude each other")
    statuses: Sequence[str | None] = (None,) if every else OPEN if status is None else (status,)
    with TaskClient(find_root(root), user) as client:
        zone = client.zone()
        if search is None:
            rows, left = _list_tasks(client, statuses, {"tags": list(tags), "subject": subject})
            rows.sort(key=partial(_order, zone))
        else:
            rows, left = _search_tasks(client, search, statuses, {"tags": list(tags), "subject": subject}), False
    wanted = [row for row in rows if priority in (None, row["priority"])]
    shown = wanted[:limit]
    if as_json:
        echo_json({"tasks": shown, "total": len(wanted)})
    else:
        subjects = any(row["subject"] for row in shown)
        columns = ("id", "priority", "due", "status", "title", "tags", *(["subject"] if subjects else []))
        named = zip(short_ids(shown), shown, strict=True)
        cells = ((name, *_cells(row, due_text(row, zone)))[: len(columns)] for name, row in named)
        print_table(columns, cells, empty=_EMPTY, style=task_colour)
    if len(wanted) > limit:
        echo(f"there are {len(wanted) - limit:,} more; --limit shows them", err=True)
    if left:
        echo(f"only the newest {LOOKED_AT:,} tasks of a status were looked at", err=True)


_EMPTY: Final = "There are no such tasks; `symbi task add` adds one."


def _cells(row: Mapping[str, Any], due: str) -> tuple[str, ...]:
    priority = "-" if row["priority"] == "normal" else row["priority"]
    return priority, due, row["status"], row["title"], " ".join(row["tags"]) or "-", row["subject"] or "-"


def _list_tasks(
    client: TaskClient, statuses: Sequence[str | None], wanted: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the tasks of these statuses, and True if there are more."""
    rows: list[dict[str, Any]] = []
    left = False
    for status in statuses:
        found: list[dict[str, Any]] = []
        total = 1
        while len(found) < min(total, LOOKED_AT):
            given = {**wanted, "status": status, "limit": PAGE, "offset": len(found)}
            page = client.call("task_list", given)
            found += page["tasks"]
            total = page["total"] if page["tasks"] else 0
        left = left or total > len(found)
        rows += found
    return list({row["task_id"]: row for row in rows}.values()), left


def _search_tasks(
    client: TaskClient, words: str, statuses: Sequence[str | None], wanted: Mapping[str, Any]
) -> list[dict[str, Any]]:
    given = {**wanted, "query": words, "limit": PAGE}
    answer = client.call("task_search", given if len(statuses) > 1 else {**given, "status": statuses[0]})
    for note in answer["notes"]:
        echo(f"symbi: {note}", err=True)
    rows = answer["tasks"]
    if len(statuses) > 1 and len(rows) == PAGE:
        # The others may be hidden by tasks of another status that fit better.
        for status in statuses:
            rows += client.call("task_search", {**given, "status": status})["tasks"]
    # One that changes meanwhile may be found twice.
    return [row for row in {row["task_id"]: row for row in rows}.values() if {None, row["status"]} & {*statuses}]


def _order(zone: ZoneInfo | None, row: Mapping[str, Any]) -> tuple[Any, ...]:
    # A day is due at its end: after the times of that day.
    due = row["due_date"]
    at = "~" if due is None else local_time(due, zone) if "T" in due else f"{due}~"
    return row["status"] not in OPEN, not row["overdue"], at, PRIORITIES.index(row["priority"]), row["task_id"]


@click.command(short_help="Show a task and its history.")
@click.argument("task_id", metavar="ID")
@user_option("A task of this user.")
@root_option
@json_option
def show(task_id: str, user: str | None, root: Path | None, as_json: bool) -> None:
    """Show the task ID with its history: who changed what, and when."""
    with TaskClient(find_root(root), user) as client:
        (found,) = client.ids([task_id])
        row, zone = client.call("task_show", {"task_id": found}), client.zone()
    if as_json:
        echo_json(row)
        return
    about = (
        ("id", row["task_id"]),
        ("status", row["status"]),
        ("priority", row["priority"]),
        ("due", due_text(row, zone)),
        ("tags", " ".join(row["tags"])),
        ("subject", row["subject"]),
        ("created", f"{local_time(row['created_at'], zone)} by {_actor(row['source'], row['created_by_agent'])}"),
        ("completed", row["completed_at"] and local_time(row["completed_at"], zone)),
    )
    echo(row["title"], bold=True)
    for name, value in about:
        if value not in {None, "", "-"}:
            echo(f"{name:<10} ", style(str(value), fg=task_colour(str(value)) or None))
    if row["description"]:
        echo_text(f"\n{row['description']}")
    echo()
    echo("history", bold=True)
    for line in _history(row["history"], zone):
        echo(line)


def _actor(source: str, agent: str | None) -> str:
    return f"the agent {agent}" if agent else {"agent": "an assistant", "user": "a person"}.get(source, source)


def _history(entries: Sequence[Mapping[str, Any]], zone: ZoneInfo | None) -> Iterator[str]:
    for entry in entries:
        at, who = local_time(entry["at"], zone), _actor(entry["source"], entry["agent"])
        if entry["version"] == 1:
            yield f"{at}  created by {who}"
            continue
        changes = ", ".join(
            f"{each['field']}: {_value(each, 'before', zone)} → {_value(each, 'after', zone)}"
            for each in entry["changes"]
        )
        yield f"{at}  {who}: {changes}"


def _value(change: Mapping[str, Any], which: str, zone: ZoneInfo | None) -> str:
    value: str | Sequence[str] | None = change[which]
    if not value:
        return "none"
    if change["field"] == "due_date":
        return moment(str(value), zone)
    return beginning(value if isinstance(value, str) else " ".join(value), _LONGEST)


_LONGEST: Final = 60
"""Characters of a value in a history."""


def _print_feed(answer: Mapping[str, Any]) -> None:
    if answer["url"] is None:
        echo("the feed is off" if answer["was_on"] else "there was no feed")
        return
    used = "never read" if answer["used_at"] is None else f"last read {local_time(answer['used_at'])}"
    echo(f"calendar feed, {used}; keep the URL secret:", err=True)
    # Only the URL goes to standard output, for scripts.
    echo(answer["url"])
    if not answer["serving"]:
        echo("no daemon is running now: the address is that of the default listener", err=True)


feed = tool_command(
    "task_feed",
    "feed",
    short="Print the URL of the calendar feed.",
    doc="""Print the URL of the calendar feed of a user's tasks; the first time it is made.

    Whoever has the URL reads the tasks, and nothing else. It is at the address of the operators' listener; behind a
    proxy replace the address by yours.
    """,
    user="The tasks of this user.  [default: owner]",
    view=_print_feed,
)
