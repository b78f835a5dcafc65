"""`symbi memory list`, `show`, `inspect` and `stats`."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import RootClient, call, find_root, user_name
from runtime.cli.memory.item_output import listed_kind, place_of, print_item, problem_text
from runtime.cli.memory.options import memory_option, tag_options, type_option, user_option
from runtime.cli.terminal.output import (
    json_option,
    local_time,
    one_line,
    print_json,
    print_table,
    printable,
    root_option,
    with_zone,
)
from runtime.cli.terminal.progress import no_progress

_LONGEST = 500
"""Maximum items of one answer; more are fetched in several."""
_SHOWN_LETTERS = 200
_NARROW = 120
"""Width of a terminal, in columns, below which the list is not a table: ids, times and names need eighty."""


@click.command("list", short_help="List the latest items, newest first.")
@click.argument("count", metavar="[N]", type=click.IntRange(1, 100_000), default=10)
@click.option("--agent", metavar="NAME", help="Only items of this agent.  [default: all agents]")
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
def list_(count: int, root: Path | None, as_json: bool, **wanted: Any) -> None:
    """List the latest N items (default 10), newest first, of every agent or of one."""
    found, items, cursor = find_root(root), list[dict[str, Any]](), None
    wanted |= {name: list(wanted[name]) for name in ("tag", "all_tags")}
    wanted |= {name: with_zone(wanted[name]) for name in ("since", "until")}
    while len(items) < count:
        asked = {**wanted, "limit": min(count - len(items), _LONGEST), "cursor": cursor}
        answer = call(found, "memory_list", asked, progress=no_progress)
        items += answer["items"]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    if as_json:
        print_json({"items": items})
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
        click.echo("\n\n".join(_entry(row, width) for row in rows))
        return
    narrowed = any(value for name, value in wanted.items() if name not in {"limit", "cursor"})
    empty = "Nothing was found." if narrowed else "There are no items yet."
    print_table(("when", "agent", "type", "text", "id"), rows, empty=empty)


def _entry(row: Sequence[str], width: int) -> str:
    """Return a row of the list as several lines, for a terminal too narrow for a table."""
    when, agent, kind, text, memory_id = map(one_line, row)
    lines = textwrap.wrap(text, max(20, width - 4))
    return "\n".join(
        [f"{click.style(f'{when}  {kind}  {agent}', bold=True)}  {memory_id}", *(f"    {each}" for each in lines)]
    )


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
        print_json(answer)
    else:
        print_item(answer["item"], place_of(answer), user)


@click.command(short_help="Show the memory file of an agent and the log of a day.")
@click.argument("agent")
@click.option("--day", metavar="YYYY-MM-DD", help="Show the log of this day (UTC) instead of today's.")
@memory_option
@root_option
@json_option
def inspect(agent: str, day: str | None, memory: str | None, root: Path | None, as_json: bool) -> None:
    """Show the memory file of AGENT and the log of today, formatted on a terminal."""
    answer = call(find_root(root), "memory_inspect", {"agent": agent, "day": day, "memory": memory})
    if as_json:
        print_json(answer)
        return
    for part in ("memory", "log"):
        file = answer[part]
        click.secho(one_line(file["path"]), dim=True, err=True)
        if file["text"] is None:
            none = "nothing yet" if part == "memory" else "no episodes on that day"
            click.secho(f"  ({none})", dim=True, err=True)
        elif sys.stdout.isatty():
            _lay_out(printable(file["text"]))
        else:
            # The exact content, for other programs.
            click.echo(file["text"], nl=not file["text"].endswith("\n"))


def _lay_out(text: str) -> None:
    if os.environ.get("NO_COLOR"):
        click.echo(text, nl=not text.endswith("\n"))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text, hyperlinks=False))


@click.command(short_help="Count what each agent remembers, and list unreadable files.")
@click.argument("agent", required=False)
@memory_option
@root_option
@json_option
def stats(agent: str | None, memory: str | None, root: Path | None, as_json: bool) -> None:
    """Count the items, files and days of every agent or of AGENT, and list what cannot be read."""
    answer = call(find_root(root), "memory_stats", {"agent": agent, "memory": memory}, progress=no_progress)
    if as_json:
        print_json(answer)
        return
    columns = ("agent", "memory", "items", "by meaning", "files", "size", "first day", "last day")
    print_table(columns, [_row(row) for row in answer["agents"]], empty="There are no items yet.")
    said = {problem_text(problem): None for row in answer["agents"] for problem in row["problems"]}
    more = [(state["memory"], line) for state in answer["memories"] for line in state["problems"]]
    for line in (*said, *(f"memory {name}: {line}" for name, line in more if line not in said)):
        click.secho(one_line(line), fg="yellow", err=True)


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    from humanfriendly import format_size

    return (
        row["agent"],
        row["memory"],
        "?" if row["items"] is None else str(row["items"]),
        "?" if row["embedded"] is None else str(row["embedded"]),
        str(row["files"]),
        format_size(row["bytes"]),
        row["oldest"] or "-",
        row["newest"] or "-",
    )
