"""`symbi task feed`: the URL to which a calendar program subscribes."""

from __future__ import annotations

from pathlib import Path

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import json_option, local_time, root_option, user_option
from runtime.cli.terminal.screen import echo, echo_json


@click.command(short_help="Print the URL of the calendar feed.")
@click.option("--events", is_flag=True, help="The URL of the dated tasks as events, for programs that show no to-dos.")
@click.option("--rotate", is_flag=True, help="Make a new URL; the one before is refused from now on.")
@click.option("--off", is_flag=True, help="Switch the feed off: its URL is refused from now on.")
@user_option("The tasks of this user.")
@root_option
@json_option
def feed(*, events: bool, rotate: bool, off: bool, user: str | None, root: Path | None, as_json: bool) -> None:
    """Print the URL of the calendar feed of a user's tasks; the first time it is made.

    Whoever has the URL reads the tasks, and nothing else. It is at the address of the operators' listener; behind a
    proxy replace the address by yours.
    """
    answer = call(find_root(root), "task_feed", {"rotate": rotate, "off": off}, user=user)
    if answer["url"] is not None and events:
        answer["url"] += "?as=events"
    if as_json:
        echo_json(answer)
        return
    if answer["url"] is None:
        echo("the feed is off" if answer["was_on"] else "there was no feed")
        return
    used = "never read" if answer["used_at"] is None else f"last read {local_time(answer['used_at'])}"
    echo(f"feed of {user or 'owner'}, {used}; keep the URL secret:", err=True)
    # Only the URL goes to standard output, for scripts.
    echo(answer["url"])
    if not answer["serving"]:
        echo("no daemon is running now: the address is that of the default listener", err=True)
