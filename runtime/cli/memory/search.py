"""`symbi memory search`: searches the memory of an agent."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.memory.item_output import kind_of, place_of
from runtime.cli.memory.options import memory_option, tag_options, type_option, user_option
from runtime.cli.terminal.hits import explain_option, print_hit, threshold_option
from runtime.cli.terminal.output import json_option, local_time, root_option, with_zone
from runtime.cli.terminal.progress import progress_bar
from runtime.cli.terminal.screen import echo, echo_json

_SHOWN_ID = 8
"""Characters of an id shown on a terminal; `show`, `edit` and `forget` accept this prefix."""
_BY_TIME = "7"
"""Version of ids that begin with a time (RFC 9562): ids created together share their beginning."""


@click.command(short_help="Search the memory of an agent by meaning and by words.")
@click.argument("agent")
@click.argument("query")
@click.option(
    "--limit",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    metavar="N",
    help="Maximum number of hits, up to 100.",
)
@type_option
@tag_options
@click.option(
    "--since", metavar="7d|DATE", help="Only items from this time on: a duration before now, or a local date and time."
)
@click.option("--until", metavar="7d|DATE", help="Only items from before this time.")
@click.option("--project", metavar="ID", help="Only items of this project.")
@click.option("--source-uri", "--source", "source", metavar="URI", help="Only items from this source.")
@user_option
@threshold_option
@memory_option
@explain_option
@root_option
@json_option
def search(*, agent: str, query: str, explain: bool, root: Path | None, as_json: bool, **wanted: Any) -> None:
    """Search what AGENT remembers about QUERY, by meaning and by words at once; best hits first.

    Dates in the query ("last week", "in May 2023") are understood.
    """
    for name in ("tag", "all_tags"):
        wanted[name] = list(wanted[name])
    for name in ("since", "until"):
        wanted[name] = with_zone(wanted[name])
    asked = {"agent": agent, "query": query, **wanted}
    with progress_bar("searching", at_once=False) as progress:
        answer = call(find_root(root), "memory_search", asked, progress=progress)
    if as_json:
        echo_json(answer)
        return
    for rank, hit in enumerate(answer["hits"], 1):
        _print_hit(rank, hit, query, explain=explain)
    if not answer["hits"]:
        echo("Nothing was found.")
    for note in answer["notes"]:
        echo(f"note: {note}", fg="yellow", err=not explain)


def _print_hit(rank: int, hit: Mapping[str, Any], query: str, *, explain: bool) -> None:
    item = hit["item"]
    head = [f"{rank:>2}", f"{hit['score']:.3f}", local_time(item["timestamp"])[:16], kind_of(item)]
    head += [f"by {author}" for author in [item["provenance"]["author"]] if author]
    where = [each for each in (_short(item["memory_id"]), place_of(hit)) if each]
    print_hit(head, where, item["text"], query, explained=hit if explain else None)


def _short(memory_id: str) -> str:
    """Return the beginning of an id for a terminal, the whole id for a program."""
    return memory_id if not sys.stdout.isatty() or memory_id[14:15] == _BY_TIME else memory_id[:_SHOWN_ID]
