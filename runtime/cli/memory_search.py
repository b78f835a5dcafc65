"""`symbi memory search`: what an agent remembers about something."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.memory_items import kind_of, place_of
from runtime.cli.memory_options import memory_option, type_option, user_option
from runtime.cli.output import json_option, local, print_json, printable, root_option, zoned
from runtime.cli.passage import print_passage
from runtime.cli.progress import unwatched


@click.command(short_help="Find what an agent remembers, by meaning and by words.")
@click.argument("agent")
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="The most hits.")
@type_option
@click.option("--tag", metavar="TAG", multiple=True, help="Only with this tag; again for more, one or more of them.")
@click.option("--all-tags", metavar="TAG", multiple=True, help="Only with this tag; again for more, all of them.")
@click.option("--since", metavar="7d|DATE", help="Not older: so long ago, or a local date and time.")
@click.option("--until", metavar="7d|DATE", help="Older than this.")
@click.option("--project", metavar="ID", help="Only of this project.")
@click.option("--source", metavar="URI", help="Only from there.")
@user_option
@memory_option
@click.option("--explain", is_flag=True, help="Show what each part of the search added to each score.")
@root_option
@json_option
def search(*, agent: str, query: str, explain: bool, root: Path | None, as_json: bool, **wanted: Any) -> None:
    """Find what AGENT remembers about QUERY, best first: by meaning and by words at once.

    Dates in the query ("last week", "in May 2023") are understood.
    """
    for name in ("tag", "all_tags"):
        wanted[name] = list(wanted[name])
    for name in ("since", "until"):
        wanted[name] = zoned(wanted[name])
    asked = {"agent": agent, "query": query, **wanted}
    answer = call(find_root(root), "memory_search", asked, progress=unwatched)
    if as_json:
        print_json(answer)
        return
    for rank, hit in enumerate(answer["hits"], 1):
        _print_hit(rank, hit, query, explain=explain)
    if not answer["hits"]:
        click.echo("Nothing was found.")
    for note in answer["notes"]:
        click.secho(f"note: {printable(note)}", fg="yellow", err=not explain)


def _print_hit(rank: int, hit: Mapping[str, Any], query: str, *, explain: bool) -> None:
    item = hit["item"]
    head = [f"{rank:>2}", f"{hit['score']:.3f}", local(item["timestamp"])[:16], kind_of(item)]
    head += [f"by {author}" for author in [item["provenance"]["author"]] if author]
    place = place_of(hit)
    click.echo("  ".join([click.style(printable("  ".join(head)), bold=True), printable(place or item["memory_id"])]))
    if explain:
        click.secho("    " + _parts(hit["parts"]), dim=True)
    print_passage(item["text"], query)


def _parts(parts: Mapping[str, float]) -> str:
    return " + ".join(f"{name} {value:.3f}" for name, value in parts.items()) or "nothing added to its score"
