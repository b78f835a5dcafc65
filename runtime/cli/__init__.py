"""The command `symbi`: one file per group of commands, imported when it is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import StringIO

import click

from dslc.cli.lazy_group import LazyGroup, escape_unencodable, version_option
from runtime.cli.terminal.screen import echo, echo_text
from runtime.errors import SymbiontError

COMMANDS = {
    "up": ("runtime.cli.up:up", "Start the daemon with the programs under PATH."),
    "mcp": ("runtime.cli.mcp:mcp", "Serve the Model Context Protocol on standard input and output."),
    "chat": ("runtime.cli.chat:chat", "Talk with an agent."),
    "webhook": ("runtime.cli.webhook:webhook", "List, test and edit webhooks; show and redeliver deliveries."),
    "readiness": ("runtime.cli.readiness:readiness", "Check that everything the daemon needs is ready."),
    "agent": ("runtime.cli.agent:agent", "List agents and their runs; edit their core memory."),
    "thread": ("runtime.cli.thread:thread", "List, show, export and delete the threads of agents."),
    "mcp-server": ("runtime.cli.mcp_server:mcp_server", "List, approve and test MCP servers with tools for agents."),
    "memory": ("runtime.cli.memory:memory", "Search, write, export, move and maintain memories."),
    "push": ("runtime.cli.collection.push:push", "Store files, folders or text in a collection."),
    "collection": ("runtime.cli.collection:collection", "List, search, summarize and edit collections."),
    "table": ("runtime.cli.table:table", "Query, export and import the SQL tables of a user."),
    "database": (
        "runtime.cli.table.database:database",
        "Replace a lost database, and show what one needs.",
    ),
    "kv": ("runtime.cli.kv:kv", "Set, list, delete and export what agents keep by name."),
    "task": ("runtime.cli.task:task", "List, add, complete and edit tasks; print the calendar feed."),
    "user": ("runtime.cli.user:user", "Add, list and remove users."),
    "key": ("runtime.cli.key:key", "Show, rotate, export and import the keys of users."),
    "token": ("runtime.cli.token:token", "Create, list and revoke bearer tokens."),
    "secret": ("runtime.cli.key:secret", "Show generated secrets."),
    "completion": ("runtime.cli.terminal.completion:completion", "Print the completion script of a shell."),
}
"""The location and the summary of every command, so that `--version` and `--help` import none."""


@click.group(
    cls=LazyGroup,
    places={name: place for name, (place, _) in COMMANDS.items()},
    summaries={name: text for name, (_, text) in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@version_option("symbi")
def symbi() -> None:
    """Run agents with memory on verified webhooks."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `symbi` and exit: 0 done, 1 failed, 2 could not run as asked, 130 interrupted."""
    escape_unencodable()
    try:
        code = symbi.main(arguments, standalone_mode=False, color=False if os.environ.get("NO_COLOR") else None)
    except click.ClickException as error:
        said = StringIO()
        error.show(file=said)
        echo_text(said.getvalue(), err=True, nl=False)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except SymbiontError as error:
        echo(f"symbi: {error}", err=True)
        if error.hint:
            echo(f"  help: {error.hint}", err=True)
        code = error.exit_code
    except BrokenPipeError:
        # The reader closed the pipe. Redirect stdout so that the interpreter's final flush does not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        # A full disk, a missing folder: a condition that a person can fix.
        place = f"{error.filename}: " if isinstance(error.filename, str) else ""
        echo(f"symbi: {place}{(error.strerror or str(error)).lower()}", err=True)
        code = 1
    sys.exit(code or 0)
