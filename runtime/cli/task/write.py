"""`symbi task add`, `done`, `edit` and `rm`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from runtime.cli.client import find_root
from runtime.cli.items import delete_each
from runtime.cli.task.client import PRIORITIES, STATUSES, TaskClient, due_text, short_ids
from runtime.cli.task.due_dates import DueDate, read_due_date
from runtime.cli.terminal.input import text_or_input
from runtime.cli.terminal.output import confirm, count_text, json_option, root_option, subject_option, user_option
from runtime.cli.terminal.screen import echo, echo_json, one_line
from runtime.errors import UsageError

_due_option = click.option(
    "--due", metavar="WHEN", help='When it is due: "tomorrow 9:00", "next friday", "in 3 days", 2026-12-01.'
)
_description_option = click.option("--description", metavar="TEXT|-", help="Details; - reads standard input.")
_MOST_TOGETHER: Final = 100


@click.command(short_help="Add a task.")
@click.argument("title", metavar="TITLE…", nargs=-1, required=True)
@_due_option
@click.option("--priority", type=click.Choice(PRIORITIES), help="How important it is.  [default: normal]")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag. Repeatable.")
@_description_option
@subject_option("A task of")
@user_option("A task of this user.")
@root_option
@json_option
def add(
    *,
    title: tuple[str, ...],
    due: str | None,
    priority: str | None,
    tags: tuple[str, ...],
    description: str | None,
    subject: str | None,
    user: str | None,
    root: Path | None,
    as_json: bool,
) -> None:
    """Add a task with the words TITLE, which need no quotes."""
    details = None if description is None else text_or_input(description, "--description")
    with TaskClient(find_root(root), user) as client:
        zone = client.zone()
        read = _read_due(due, zone)
        given = {
            "title": " ".join(title),
            "due_date": None if read is None else read.text,
            "priority": priority,
            "tags": list(tags),
            "description": details,
            "subject": subject,
        }
        row = client.call("task_create", given)
    _print_task("added", row, read, zone, as_json=as_json)


@click.command(short_help="Mark tasks as completed.")
@click.argument("names", metavar="ID…", nargs=-1, required=True)
@user_option("Tasks of this user.")
@root_option
@json_option
def done(names: tuple[str, ...], user: str | None, root: Path | None, as_json: bool) -> None:
    """Mark the tasks ID as completed: all of them, or none if one cannot be."""
    if len(names) > _MOST_TOGETHER:
        raise UsageError(f"at most {_MOST_TOGETHER} tasks are completed together")
    with TaskClient(find_root(root), user) as client:
        ids = client.ids(names)
        answer = client.call("task_bulk_update", {"task_ids": ids, "status": "completed"})
    if as_json:
        echo_json(answer)
    else:
        echo(f"completed {count_text(len(ids), 'task')}")


@click.command(short_help="Change a task.")
@click.argument("name", metavar="ID")
@click.option("--title", metavar="TEXT", help="The new title.")
@_due_option
@click.option("--status", type=click.Choice(STATUSES), help="The new status.")
@click.option("--priority", type=click.Choice(PRIORITIES), help="The new priority.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; replaces all tags. Repeatable.")
@_description_option
@click.option(
    "--clear",
    multiple=True,
    type=click.Choice(["due", "description", "tags"]),
    help="Empty the due date, the description or the tags. Repeatable.",
)
@user_option("A task of this user.")
@root_option
@json_option
def edit(
    *,
    name: str,
    due: str | None,
    tags: tuple[str, ...],
    description: str | None,
    clear: tuple[str, ...],
    user: str | None,
    root: Path | None,
    as_json: bool,
    **given: str | None,
) -> None:
    """Change fields of the task ID; the others stay. A task is reopened with `--status pending`."""
    both = [each for each, value in (("due", due), ("tags", tags), ("description", description)) if value]
    if twice := [each for each in clear if each in both]:
        raise UsageError(f"{twice[0]} is given and cleared", hint="give its new value, or --clear it")
    if not (due or tags or description or clear or any(given.values())):
        raise UsageError("there is nothing to change", hint="`symbi task edit --help` lists what can be changed")
    details = None if description is None else text_or_input(description, "--description")
    emptied = [{"due": "due_date"}.get(each, each) for each in dict.fromkeys(clear) if each != "tags"]
    with TaskClient(find_root(root), user) as client:
        (found,) = client.ids([name])
        zone = client.zone()
        read = _read_due(due, zone)
        changes = {
            **given,
            "task_id": found,
            "due_date": None if read is None else read.text,
            "tags": list(tags) if tags or "tags" in clear else None,
            "description": details,
            "clear": emptied or None,
        }
        row = client.call("task_update", changes)
    _print_task("changed", row, read, zone, as_json=as_json)


@click.command(short_help="Delete tasks permanently.")
@click.argument("names", metavar="[ID]…", nargs=-1)
@subject_option("Delete all tasks of")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@user_option("Tasks of this user.")
@root_option
@json_option
def rm(
    *, names: tuple[str, ...], subject: str | None, yes: bool, user: str | None, root: Path | None, as_json: bool
) -> None:
    """Delete the tasks ID with their history permanently; `symbi task edit --status cancelled` keeps one.

    A task that cannot be deleted is reported and the others are deleted; the exit code is then 1.
    """
    with TaskClient(find_root(root), user) as client:
        ids = client.ids(names, subject)
        if not yes:
            what = count_text(len(ids), "task")
            if len(ids) == 1:
                what = f"“{one_line(client.call('task_show', {'task_id': ids[0]})['title'])}”"
            confirm(f"Delete {what}?", undone="nothing was deleted")
        delete_each(client.root, "task_delete", "task_id", ids, noun="task", as_json=as_json, user=user)


def _read_due(text: str | None, zone: ZoneInfo | None) -> DueDate | None:
    """Return when a task is due. Raises UsageError."""
    return None if text is None else read_due_date(text, now=datetime.now(UTC), zone=zone)


def _print_task(
    what: str, row: Mapping[str, Any], due: DueDate | None, zone: ZoneInfo | None, *, as_json: bool
) -> None:
    if due is not None and due.past:
        echo(f"symbi: {due.shown} is in the past: the task is overdue", fg="yellow", err=True)
    if as_json:
        echo_json(row)
        return
    when = due_text({**row, "overdue": False}, zone)
    (name,) = short_ids([row])
    echo(f"{what} {name}  {row['title']}{'' if when == '-' else f'  (due {when})'}")
