"""`symbi task`: what a user has to do. Each command is imported when it is called."""

from __future__ import annotations

import click

from dslc.cli.lazy_group import LazyGroup

COMMANDS = {
    "list": "runtime.cli.task.read:list_",
    "add": "runtime.cli.task.write:add",
    "show": "runtime.cli.task.read:show",
    "done": "runtime.cli.task.write:done",
    "edit": "runtime.cli.task.write:edit",
    "rm": "runtime.cli.task.write:rm",
    "feed": "runtime.cli.task.read:feed",
}
"""The location of every command, in the order of the help."""


@click.group(cls=LazyGroup, places=COMMANDS)
def task() -> None:
    """List, add, complete, edit and delete tasks of a user, and print the URL of their calendar feed.

    ID is the id of a task, or the last four or more digits of it, as `symbi task list` shows them.
    """
