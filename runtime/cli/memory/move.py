"""`symbi memory move`: copies a memory into another."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import counted, json_option, print_table, root_option
from runtime.cli.terminal.progress import progress_bar
from runtime.cli.terminal.screen import echo, echo_json


@click.command(short_help="Copy a memory into another, and verify the copy.")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--agent", metavar="NAME", help="Only the items of this agent or this collection.")
@click.option("--dry-run", is_flag=True, help="Show what would be copied without copying it.")
@root_option
@json_option
def move(source: str, target: str, agent: str | None, dry_run: bool, root: Path | None, as_json: bool) -> None:
    """Copy all items of the memory FROM into the memory TO, a collection with its own index.

    Items keep their IDs, times and other fields. The same command resumes an interrupted copy, without duplicates. Then
    the index of TO is updated, and both memories are compared by counts and hashes: a difference is reported and the
    exit code is 1. FROM does not change.
    """
    asked = {"source": source, "target": target, "agent": agent, "dry_run": dry_run}
    with progress_bar("moving") as progress:
        answer = call(find_root(root), "memory_move", asked, progress=progress)
    if as_json:
        echo_json(answer)
    else:
        _print(answer)
    if not answer["good"]:
        sys.exit(1)


def _print(answer: Mapping[str, Any]) -> None:
    dry = answer["dry_run"]
    rows = [tuple(_cells(each, dry=dry)) for each in answer["agents"]]
    columns = ["agent", "items", "to copy" if dry else "copied", "there", "equal", "different"]
    columns += [] if dry else ["there now", "indexed", "by meaning"]
    print_table(columns, rows, empty=f"The memory {answer['source']} has no items.")
    for problem in _problems(answer):
        echo(problem, fg="red", err=True)
    if dry:
        echo("Nothing was copied.")
    elif answer["good"] and rows:
        total = sum(each["items"] for each in answer["agents"])
        echo(f"{counted(total, 'item')} of {answer['source']} and {answer['target']} compared: no differences.")
        echo(f"{answer['source']} did not change; `symbi memory purge AGENT --memory {answer['source']}` empties it.")


def _cells(each: Mapping[str, Any], *, dry: bool) -> Iterator[str]:
    yield each["agent"] if each["agent"] == each["to"] else f"{each['agent']} → {each['to']}"
    for name in ("items", "copied", "there", "equal", "different"):
        yield f"{each[name]:,}"
    for name in () if dry else ("items_there", "indexed", "embedded"):
        yield "-" if each[name] is None else f"{each[name]:,}"


def _problems(answer: Mapping[str, Any]) -> list[str]:
    return [*answer["problems"], *(problem for each in answer["agents"] for problem in each["problems"])]
