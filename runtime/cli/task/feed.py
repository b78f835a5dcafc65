"""`symbi task feed`: the URL to which a calendar program subscribes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.cli.terminal.output import local_time
from runtime.cli.terminal.screen import echo
from runtime.cli.tool_command import tool_command


def _print(answer: Mapping[str, Any]) -> None:
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
    view=_print,
)
