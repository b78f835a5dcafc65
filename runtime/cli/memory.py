"""`symbi memory`: what agents remember, as it stands in their files."""

from __future__ import annotations

from pathlib import Path

import click

from runtime.cli.client import call, find_root
from runtime.cli.output import json_option, print_json, print_table, root_option


@click.group()
def memory() -> None:
    """What agents remember."""


@memory.command("list")
@root_option
@json_option
def list_(root: Path | None, as_json: bool) -> None:
    """Every agent that has a memory, and how much."""
    answer = call(find_root(root), "memories.list")
    if as_json:
        print_json(answer)
        return
    from humanfriendly import format_size

    rows = [
        (
            row["agent"],
            row["memory"],
            str(row["files"]),
            format_size(row["bytes"]),
            row["oldest"] or "-",
            row["newest"] or "-",
        )
        for row in answer["agents"]
    ]
    print_table(("agent", "memory", "files", "size", "first day", "last day"), rows, empty="Nothing is remembered yet.")


@memory.command()
@click.argument("agent")
@click.option("--day", metavar="YYYY-MM-DD", help="The log of that day (UTC) instead of today's.")
@root_option
@json_option
def inspect(agent: str, day: str | None, root: Path | None, as_json: bool) -> None:
    """The memory of AGENT and today's log, as they stand in the files."""
    answer = call(find_root(root), "memories.inspect", {"agent": agent, "day": day})
    if as_json:
        print_json(answer)
        return
    for part in ("memory", "log"):
        file = answer[part]
        click.secho(file["path"], dim=True, err=True)
        if file["text"] is None:
            click.secho("  (nothing yet)", dim=True, err=True)
        else:
            click.echo(file["text"], nl=not file["text"].endswith("\n"))
