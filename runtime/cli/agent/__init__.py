"""`symbi agent`: agents, their runs, core memory and settings. Each command is imported when it is called."""

from __future__ import annotations

import click

from dslc.cli.lazy_group import LazyGroup

COMMANDS = {
    "list": "runtime.cli.agent.overview:list_",
    "show": "runtime.cli.agent.overview:show",
    "context": "runtime.cli.agent.overview:context",
    "runs": "runtime.cli.agent.runs:runs",
    "cancel": "runtime.cli.agent.runs:cancel",
    "usage": "runtime.cli.agent.usage:usage",
    "pending": "runtime.cli.agent.approvals:pending",
    "approve": "runtime.cli.agent.approvals:approve",
    "deny": "runtime.cli.agent.approvals:deny",
    "approvals": "runtime.cli.agent.approvals:approvals",
    "undo": "runtime.cli.agent.runs:undo",
    "block": "runtime.cli.agent.block:block",
    "config": "runtime.cli.agent.config:config",
}
"""The location of every command, in the order of the help."""


@click.group(cls=LazyGroup, places=COMMANDS)
def agent() -> None:
    """Look at agents and their runs, decide about their calls, and edit their core memory and settings."""
