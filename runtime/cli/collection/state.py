"""`symbi collection list`, `new` and `metrics`: the collections and their sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import counted, json_option, one_line, print_json, print_table, root_option
from runtime.cli.terminal.progress import no_progress

_TAGS = 8
"""Maximum number of tags that are named."""


@click.command("list", short_help="List the collections.")
@root_option
@json_option
def list_(root: Path | None, as_json: bool) -> None:
    """List the collections, how much is in each, and how each is searched."""
    answer = call(find_root(root), "get-collections", progress=no_progress)
    if as_json:
        print_json(answer)
        return
    print_table(
        ("collection", "memory", "items", "index", "embedding", "state"),
        [
            (
                f"{each['name']} (default)" if each["default"] else each["name"],
                each["memory"],
                f"{each['items']:,}",
                each["index"],
                _embedding(each),
                each["state"],
            )
            for each in answer["collections"]
        ],
        empty="There are no collections.",
    )


def _embedding(each: Mapping[str, Any]) -> str:
    if each["embedding"] is None:
        return "by keyword only"
    size = f", {each['dimension']}" if each["dimension"] else ""
    return f"{each['embedding']} ({each['model']}{size})" if each["model"] else each["embedding"]


@click.command(short_help="Create an empty collection.")
@click.argument("name")
@click.option(
    "--dimension",
    type=click.IntRange(1, 65536),
    help="Fail unless the vectors of the collection have this dimension.",
    metavar="N",
)
@root_option
@json_option
def new(name: str, dimension: int | None, root: Path | None, as_json: bool) -> None:
    """Create the empty collection NAME in the default memory, unless it exists."""
    answer = call(find_root(root), "new-collection", {"name": name, "dimension": dimension}, progress=no_progress)
    if as_json:
        print_json(answer)
        return
    done = "created" if answer["created"] else "exists already:"
    click.echo(f"{done} the collection {answer['name']} in the memory {answer['memory']}")
    _print_notes(answer)


@click.command(short_help="Count items and tool calls.")
@click.option("--collection", metavar="NAME", help="Only this collection.  [default: all collections]")
@root_option
@json_option
def metrics(collection: str | None, root: Path | None, as_json: bool) -> None:
    """Count the items of each collection, or of one: by type, project and tag, and those without a vector yet.

    Also shows how often you called each tool since the daemon started. Without a daemon there is no such count.
    """
    answer = call(find_root(root), "metrics", {"collection": collection}, progress=no_progress)
    if as_json:
        print_json(answer)
        return
    for each in answer["collections"]:
        click.secho(one_line(f"{each['name']} in the memory {each['memory']}"), bold=True)
        for line in _counts(each):
            click.echo(f"    {one_line(line)}")
    rows = [(name, f"{each['calls']:,}", f"{each['failures']:,}") for name, each in sorted(answer["tools"].items())]
    if rows:
        click.echo()
        print_table(("tool", "calls", "failures"), rows, empty="")


def _counts(each: Mapping[str, Any]) -> Iterator[str]:
    by_type = ", ".join(f"{name} {count:,}" for name, count in each["by_type"].items() if count)
    yield counted(each["items"], "item") + (f": {by_type}" if by_type else "")
    if each["embedded"] is not None:
        waiting = f", {each['waiting']:,} without a vector yet" if each["waiting"] else ""
        yield f"searchable by meaning: {each['embedded']:,}{waiting}"
    for what in ("projects", "tags"):
        named = [f"{name} {count:,}" for name, count in each[what].items()]
        if named:
            more = f", and {len(named) - _TAGS} more" if len(named) > _TAGS else ""
            yield f"{what}: {', '.join(named[:_TAGS])}{more}"
    for problem in ("index_problem", "embedding_problem"):
        if each[problem]:
            yield str(each[problem])


def _print_notes(answer: Mapping[str, Any]) -> None:
    for note in answer["notes"]:
        click.secho(one_line(f"note: {note}"), fg="yellow", err=True)
