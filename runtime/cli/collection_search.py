"""`symbi collection search` and `summarize`: what a collection knows of a question, and of a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.collection_options import collection_option, now, time_range, wanted_options
from runtime.cli.hits import explain_option, print_hit, threshold_option
from runtime.cli.input import text_or_input
from runtime.cli.output import counted, json_option, local, one_line, print_json, printable, root_option
from runtime.cli.progress import shown_progress


@click.command(short_help="Find what a collection has, by meaning and by words.")
@click.argument("query_text", metavar="QUERY|-")
@collection_option
@click.option("-k", "--limit", type=int, default=10, show_default=True, metavar="N", help="The most hits.")
@wanted_options
@click.option("--all-tags", "tags_all", metavar="TAG", multiple=True, help="Only with this tag; again for more, all.")
@click.option("--since", metavar="7d|DATE", help="Not older: so long ago, or a local date and time.")
@click.option("--until", metavar="7d|DATE", help="Not newer than this.")
@click.option("--source-uri", metavar="URI", help="Only from there.")
@threshold_option
@click.option(
    "--context", "as_context", is_flag=True, help="Print the hits as numbered lines, to be put into a prompt."
)
@explain_option
@root_option
@json_option
def search(
    *,
    query_text: str,
    tags: tuple[str, ...],
    tags_all: tuple[str, ...],
    since: str | None,
    until: str | None,
    as_context: bool,
    explain: bool,
    root: Path | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Find what is kept about QUERY, or with - about what standard input says: by meaning and by words at once."""
    query = text_or_input(query_text, "QUERY")
    within = time_range(since, until)
    asked = {**wanted, "query_text": query, "tags": list(tags), "tags_all": list(tags_all), "time_range": within}
    with shown_progress("searching", at_once=False) as progress:
        answer = call(find_root(root), "search", asked, progress=progress)
    if as_json:
        print_json(answer)
        return
    if as_context:
        click.echo(printable(answer["context"]))
    elif answer["hits"]:
        for rank, hit in enumerate(answer["hits"], 1):
            _print_hit(rank, hit, query, explain=explain)
    else:
        click.echo("Nothing was found.")
    for note in answer["notes"]:
        click.secho(one_line(f"note: {note}"), fg="yellow", err=not explain)


def _print_hit(rank: int, hit: Mapping[str, Any], query: str, *, explain: bool) -> None:
    head = [f"{rank:>2}", f"{hit['score']:.3f}", local(hit["timestamp"])[:16], hit["memory_type"]]
    head += [f"#{tag}" for tag in hit["tags"]]
    where = [*filter(None, [hit["source_uri"]]), hit["memory_id"]]
    print_hit(head, where, hit["text"], query, explained=hit if explain else None)


@click.command(short_help="Keep a summary of what happened in a time.")
@collection_option
@click.option("--since", metavar="7d|DATE", required=True, help="From so long ago, or from a local date and time.")
@click.option("--until", metavar="7d|DATE", help="Until then.  [default: now]")
@wanted_options
@click.option("--limit", type=int, metavar="N", help="The most items that are summarised.  [default: 50]")
@click.option("--strategy", type=click.Choice(["auto", "abstractive", "extractive"]), help="How.  [default: auto]")
@click.option("--provider", metavar="NAME", help="Who writes it, or none for its own sentences.")
@click.option("--model", metavar="NAME", help="Which model writes it.")
@click.option("--max-words", type=int, metavar="N", help="Words of the summary at most.")
@root_option
@json_option
def summarize(
    *,
    since: str,
    until: str | None,
    tags: tuple[str, ...],
    root: Path | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Make one semantic item of the episodic ones of a time, and keep it beside them.

    The same again answers the summary that is there.
    """
    within = time_range(since, until) or {}
    asked = {**wanted, "tags": list(tags) or None, "time_range": {"end": now(), **within}}
    with shown_progress("summarising") as progress:
        answer = call(find_root(root), "summarize", asked, progress=progress)
    if as_json:
        print_json(answer)
        return
    click.echo(printable(answer["summary"]))
    by = " by ".join(str(each) for each in (answer["strategy"], answer.get("model")) if each)
    click.echo(f"made of {counted(len(answer['source_memory_ids']), 'item')} ({by}), kept as", err=True)
    click.echo(answer["upserted_memory_id"], err=True)
    for note in answer.get("notes", ()):
        click.secho(one_line(f"note: {note}"), fg="yellow", err=True)
