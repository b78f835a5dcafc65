"""`symbi memory list`, `show`, `inspect` and `stats`."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from dslc.blocks.values.quantity import format_size
from runtime.cli.client import RootClient, call, find_root, user_name
from runtime.cli.memory.item_output import listed_kind, place_of, print_item, problem_text
from runtime.cli.memory.options import memory_option, tag_options, type_option, user_option
from runtime.cli.terminal.output import json_option, local_time, newest_option, print_table, root_option, with_zone
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo, echo_exact, echo_json, echo_lines, echo_markdown, joined, one_line, style
from runtime.cli.tool_command import Cell, Rows, tool_command

_LONGEST = 500
"""Maximum items of one answer; more are fetched in several."""
_SHOWN_LETTERS = 200
_NARROW = 120
"""Width of a terminal, in columns, below which the list is not a table: ids, times and names need eighty."""


@click.command("list", short_help="List the latest items, newest first.")
@click.option("--agent", metavar="NAME", help="Only items of this agent.  [default: all agents]")
@newest_option(100_000, " items", default=10)
@type_option
@tag_options
@click.option(
    "--since", metavar="7d|DATE", help="Only items from this time on: a duration before now, or a local date and time."
)
@click.option("--until", metavar="7d|DATE", help="Only items from before this time.")
@user_option
@memory_option
@root_option
@json_option
def list_(limit: int, root: Path | None, as_json: bool, **wanted: Any) -> None:
    """List the latest items, newest first, of every agent or of one."""
    found, items, cursor = find_root(root), list[dict[str, Any]](), None
    wanted |= {name: list(wanted[name]) for name in ("tag", "all_tags")}
    wanted |= {name: with_zone(wanted[name]) for name in ("since", "until")}
    while len(items) < limit:
        asked = {**wanted, "limit": min(limit - len(items), _LONGEST), "cursor": cursor}
        answer = call(found, "memory_list", asked, progress=no_progress)
        items += answer["items"]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    if as_json:
        echo_json({"items": items})
        return
    rows = [
        (
            local_time(item["timestamp"]),
            item["agent_id"],
            listed_kind(item),
            _beginning(item["text"]),
            item["memory_id"],
        )
        for item in items
    ]
    width = shutil.get_terminal_size().columns
    if rows and sys.stdout.isatty() and width < _NARROW:
        echo_lines([line for row in rows for line in (*_entry(row, width), "")][:-1])
        return
    narrowed = any(value for name, value in wanted.items() if name not in {"limit", "cursor"})
    empty = "Nothing was found." if narrowed else "There are no items yet."
    print_table(("when", "agent", "type", "text", "id"), rows, empty=empty)


def _entry(row: Sequence[str], width: int) -> list[str]:
    """Return a row of the list as several lines, for a terminal too narrow for a table."""
    when, agent, kind, text, memory_id = map(one_line, row)
    lines = textwrap.wrap(text, max(20, width - 4))
    head = joined((style(f"{when}  {kind}  {agent}", bold=True), memory_id), "  ")
    return [head, *(f"    {each}" for each in lines)]


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_LETTERS else f"{line[:_SHOWN_LETTERS]}…"


@click.command(short_help="Show one item with all its fields.")
@click.argument("memory_id", metavar="ID")
@root_option
@json_option
def show(memory_id: str, root: Path | None, as_json: bool) -> None:
    """Show the item ID of any agent, with all its fields and its location.

    ID may be shortened to a unique prefix.
    """
    with RootClient(find_root(root)) as client:
        answer = client.call("memory_show", {"memory_id": memory_id}, progress=no_progress)
        user = user_name(client, answer["item"]["user_id"])
    if as_json:
        echo_json(answer)
    else:
        print_item(answer["item"], place_of(answer), user)


def _print_files(answer: Mapping[str, Any]) -> None:
    for part in ("memory", "log"):
        file = answer[part]
        echo(file["path"], dim=True, err=True)
        if file["text"] is None:
            none = "nothing yet" if part == "memory" else "no episodes on that day"
            echo(f"  ({none})", dim=True, err=True)
        elif sys.stdout.isatty():
            echo_markdown(file["text"])
        else:
            # The exact content, for other programs.
            echo_exact(file["text"], nl=not file["text"].endswith("\n"))


inspect = tool_command(
    "memory_inspect",
    "inspect",
    arguments={"agent": "AGENT"},
    options={"day": "--day YYYY-MM-DD"},
    view=_print_files,
)


def _print_stats(answer: Mapping[str, Any]) -> None:
    _STATS(answer)
    said = {problem_text(problem): None for row in answer["agents"] for problem in row["problems"]}
    more = [(state["memory"], line) for state in answer["memories"] for line in state["problems"]]
    for line in (*said, *(f"memory {name}: {line}" for name, line in more if line not in said)):
        echo(line, fg="yellow", err=True)


stats = tool_command(
    "memory_stats",
    "stats",
    arguments={"agent": "[AGENT]"},
    view=_print_stats,
)


def _known(name: str) -> Cell:
    return lambda row: "?" if row[name] is None else row[name]


def _size(row: Mapping[str, Any]) -> str:
    return format_size(row["bytes"])


_STATS = Rows(
    "agents",
    {
        "agent": "agent",
        "memory": "memory",
        "items": _known("items"),
        "by meaning": _known("embedded"),
        "files": "files",
        "size": _size,
        "first day": "oldest",
        "last day": "newest",
    },
    empty="There are no items yet.",
)
