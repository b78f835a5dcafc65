"""`symbi collection search` and `summarize`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.collection.options import collection_option, now, time_range, wanted_options
from runtime.cli.terminal.hits import explain_option, print_hit, threshold_option
from runtime.cli.terminal.input import text_or_input
from runtime.cli.terminal.output import counted, json_option, local_time, root_option
from runtime.cli.terminal.progress import progress_bar
from runtime.cli.terminal.screen import echo, echo_json, echo_text


@click.command(short_help="Search a collection by meaning and by words.")
@click.argument("query_text", metavar="QUERY|-")
@collection_option
@click.option(
    "--limit", type=int, default=10, show_default=True, metavar="N", help="Maximum number of hits, up to 100."
)
@wanted_options
@click.option(
    "--all-tags",
    "tags_all",
    metavar="TAG",
    multiple=True,
    help="Only items with this tag. Repeatable: items with all of them match.",
)
@click.option(
    "--since", metavar="7d|DATE", help="Only items from this time on: a duration before now, or a local date and time."
)
@click.option("--until", metavar="7d|DATE", help="Only items from before this time.")
@click.option("--source-uri", metavar="URI", help="Only items from this source.")
@threshold_option
@click.option("--context", "as_context", is_flag=True, help="Print the hits as numbered lines for a prompt.")
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
    """Search the collection for QUERY, or with `-` for the text on standard input, by meaning and by words at once."""
    query = text_or_input(query_text, "QUERY")
    within = time_range(since, until)
    asked = {**wanted, "query_text": query, "tags": list(tags), "tags_all": list(tags_all), "time_range": within}
    with progress_bar("searching", at_once=False) as progress:
        answer = call(find_root(root), "search", asked, progress=progress)
    if as_json:
        echo_json(answer)
        return
    if as_context:
        echo_text(answer["context"])
    elif answer["hits"]:
        for rank, hit in enumerate(answer["hits"], 1):
            _print_hit(rank, hit, query, explain=explain)
    else:
        echo("Nothing was found.")
    for note in answer["notes"]:
        echo(f"note: {note}", fg="yellow", err=not explain)


def _print_hit(rank: int, hit: Mapping[str, Any], query: str, *, explain: bool) -> None:
    head = [f"{rank:>2}", f"{hit['score']:.3f}", local_time(hit["timestamp"])[:16], hit["memory_type"]]
    head += [f"#{tag}" for tag in hit["tags"]]
    where = [*filter(None, [hit["source_uri"]]), hit["memory_id"]]
    print_hit(head, where, hit["text"], query, explained=hit if explain else None)


@click.command(short_help="Summarize the items of a period, and store the summary.")
@collection_option
@click.option(
    "--since",
    metavar="7d|DATE",
    required=True,
    help="Start of the period: a duration before now, or a local date and time.",
)
@click.option("--until", metavar="7d|DATE", help="End of the period.  [default: now]")
@wanted_options
@click.option("--limit", type=int, metavar="N", help="Maximum number of items to summarize, up to 500.  [default: 50]")
@click.option(
    "--strategy", type=click.Choice(["auto", "abstractive", "extractive"]), help="The method.  [default: auto]"
)
@click.option(
    "--provider",
    metavar="NAME",
    help="ollama, openai, or none to extract sentences without a model.  [default: that of the memory]",
)
@click.option("--model", metavar="NAME", help="The model.  [default: that of the memory]")
@click.option(
    "--max-words",
    type=int,
    metavar="N",
    help="Maximum number of words of the summary, up to 5000.  [default: that of the memory, else 250]",
)
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
    """Summarize the episodic items of a period in one semantic item, and store it in the same collection.

    A repeated call for the same period and items prints the stored summary. With a relative period, such as 7d, each
    call is for a new period.
    """
    within = time_range(since, until) or {}
    asked = {**wanted, "tags": list(tags) or None, "time_range": {"end": now(), **within}}
    with progress_bar("summarizing") as progress:
        answer = call(find_root(root), "summarize", asked, progress=progress)
    if as_json:
        echo_json(answer)
        return
    echo_text(answer["summary"])
    by = " by ".join(str(each) for each in (answer["strategy"], answer.get("model")) if each)
    echo(f"summary of {counted(len(answer['source_memory_ids']), 'item')} ({by}), stored as", err=True)
    echo(answer["upserted_memory_id"], err=True)
    for note in answer.get("notes", ()):
        echo(f"note: {note}", fg="yellow", err=True)
