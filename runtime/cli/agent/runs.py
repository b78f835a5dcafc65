"""`symbi agent runs` and `symbi agent cancel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.cli.terminal.screen import echo
from runtime.cli.tool_command import Cell, Rows, tool_command


def _used(name: str) -> Cell:
    return lambda run: run["usage"][name] if run["usage"]["calls"] else None


runs = tool_command(
    "agent_runs",
    "runs",
    short="List the runs of agents.",
    doc="List the newest runs of AGENT, by default of all agents, newest first: what woke it, how it ended, and what "
    "its model used.",
    arguments={"agent": "[AGENT]"},
    user="The runs for this user.  [default: owner]",
    view=Rows(
        "runs",
        {
            "run": "run",
            "agent": "agent",
            "started": "started",
            "woken by": "trigger",
            "ended": lambda run: run["ended"] or run["state"],
            "tokens in": _used("tokens_in"),
            "out": _used("tokens_out"),
            "error": "error",
        },
        empty="There are no runs.",
    ),
)


def _print_cancelled(answer: Mapping[str, Any]) -> None:
    echo(f"the run {answer['run']} is {'being stopped' if answer['state'] == 'running' else 'cancelled'}")


cancel = tool_command(
    "agent_run_cancel",
    "cancel",
    doc="""Cancel RUN, which waits or is running, on whichever daemon. It needs a running daemon.

    What the run did so far stays.
    """,
    arguments={"run": "RUN"},
    options={"agent": None},
    user="The run is one for this user.  [default: owner]",
    view=_print_cancelled,
    daemon=True,
)
