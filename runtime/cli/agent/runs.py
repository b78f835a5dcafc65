"""`symbi agent runs` and `symbi agent cancel`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, call_daemon, find_root
from runtime.cli.terminal.output import (
    json_option,
    local_time,
    newest_option,
    one_line,
    print_json,
    print_table,
    root_option,
    user_option,
)


@click.command(short_help="List the runs of agents.")
@click.argument("agent", required=False)
@newest_option()
@user_option("The runs for this user.")
@root_option
@json_option
def runs(agent: str | None, limit: int, user: str | None, root: Path | None, as_json: bool) -> None:
    """List the newest runs of AGENT, by default of all agents, newest first: what woke it, how it ended, and what its
    model used."""
    answer = call(find_root(root), "agents.runs", {"agent": agent, "limit": limit, "user": user})
    if as_json:
        print_json(answer)
        return
    columns = ("run", "agent", "started", "woken by", "ended", "tokens in", "out", "error")
    print_table(columns, map(_row, answer["runs"]), empty="There are no runs.")


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    usage = run["usage"]
    return (
        run["run"],
        run["agent"],
        local_time(run["started"]),
        run["trigger"],
        run["ended"] or run["state"],
        f"{usage['tokens_in']:,}" if usage["calls"] else "-",
        f"{usage['tokens_out']:,}" if usage["calls"] else "-",
        one_line(run["error"] or "-"),
    )


@click.command(short_help="Cancel a run.")
@click.argument("run")
@user_option("The run is one for this user.")
@root_option
@json_option
def cancel(run: str, user: str | None, root: Path | None, as_json: bool) -> None:
    """Cancel RUN, which waits or is running, on whichever daemon. It needs a running daemon.

    What the run did so far stays.
    """
    answer = call_daemon(find_root(root), "agents.cancel", {"run": run, "user": user})
    if as_json:
        print_json(answer)
    elif answer["state"] == "running":
        click.echo(f"the run {run} is being stopped")
    else:
        click.echo(f"the run {run} is cancelled")
