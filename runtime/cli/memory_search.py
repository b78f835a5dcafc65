"""`symbi memory search`: what an agent remembers about something."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.memory_items import kind_of, place_of
from runtime.cli.memory_options import memory_option, type_option, user_option
from runtime.cli.output import json_option, local, print_json, printable, root_option, zoned
from runtime.cli.progress import unwatched
from runtime.search.stop_words import STOP_WORDS

_LINES = 6
"""Lines of a hit's text that are shown."""
_WIDTH = 100
_LOOKED_AT = 20_000
"""Characters of a hit's text in which the query's words are looked for."""
_WORD = re.compile(r"\w+")


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
    wanted = _words(query)
    for line in _shown(printable(item["text"][:_LOOKED_AT]), wanted):
        click.echo(f"    {_highlighted(line, wanted)}")
    click.echo()


def _parts(parts: Mapping[str, float]) -> str:
    return " + ".join(f"{name} {value:.3f}" for name, value in parts.items()) or "nothing added to its score"


def _shown(text: str, wanted: Collection[str]) -> Iterator[str]:
    """The text in lines that fit; of a long one those from just before the first that has a word of the query."""
    width = min(_WIDTH, shutil.get_terminal_size().columns) - 4 if sys.stdout.isatty() else _WIDTH
    lines = [line for each in text.splitlines() for line in textwrap.wrap(each, max(20, width))]
    first = next((at for at, line in enumerate(lines) if any(_alike(word, wanted) for word in _WORD.findall(line))), 0)
    begin = max(0, min(first - 1, len(lines) - _LINES))
    if begin:
        yield "…"
    yield from lines[begin : begin + _LINES]
    if begin + _LINES < len(lines):
        yield "…"


def _words(query: str) -> Collection[str]:
    """The words of the query, without those that stand in any text."""
    words = {word.casefold() for word in _WORD.findall(query)}
    return words - STOP_WORDS or words


def _highlighted(line: str, wanted: Collection[str]) -> str:
    """The line with the words of the query, and those that begin alike, marked where a terminal shows it."""

    def marked(match: re.Match[str]) -> str:
        return click.style(match[0], fg="green", bold=True) if _alike(match[0], wanted) else match[0]

    return _WORD.sub(marked, line)


def _alike(word: str, wanted: Collection[str]) -> bool:
    """Whether it is one of the words, or another form of one: the index goes by stems too."""
    word = word.casefold()
    return word in wanted or any(
        len(each) > 3 and len(word) > 3 and (word.startswith(each) or each.startswith(word)) for each in wanted
    )
