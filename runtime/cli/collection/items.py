"""`symbi collection get`, `update` and `forget`: single items."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import RootClient, find_root, user_name
from runtime.cli.collection.options import TYPES
from runtime.cli.deletion import forget_each, quoted
from runtime.cli.terminal.input import text_or_input
from runtime.cli.terminal.output import confirm, counted, json_option, local_time, root_option
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo, echo_json, echo_text, style
from runtime.errors import UsageError


@click.command(short_help="Show one item and its origin.")
@click.argument("memory_id", metavar="ID")
@root_option
@json_option
def get(memory_id: str, root: Path | None, as_json: bool) -> None:
    """Show the item with this ID. `symbi collection search` prints the IDs of its hits."""
    with RootClient(find_root(root)) as client:
        answer = client.call("get", {"memory_id": memory_id}, progress=no_progress)
        user = user_name(client, answer["user_id"])
    if as_json:
        echo_json(answer)
    else:
        _print(answer, user)


def _print(item: Mapping[str, Any], user: str) -> None:
    said = item["provenance"]
    rows = [
        ("id", item["memory_id"]),
        ("collection", item["collection"]),
        ("type", item["memory_type"]),
        ("when", local_time(item["timestamp"])),
        ("user", user),
        ("project", item["project_id"]),
        ("tags", " ".join(item["tags"])),
        ("source", item["source_uri"]),
        *(("also from", source) for source in item["other_sources"]),
        *((name.replace("_", " "), value) for name, value in said.items() if name != "sources"),
        *(("evidence", source) for source in said["sources"]),
        *(("made of", source) for source in item["source_memory_ids"]),
    ]
    for name, value in rows:
        if value not in {None, ""}:
            echo(style(f"{name:<11}", bold=True), f" {value}")
    echo()
    echo_text(item["text"])


@click.command(short_help="Change the text or the fields of one item.")
@click.argument("memory_id", metavar="ID")
@click.argument("text", metavar="[TEXT|-]", required=False)
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; replaces all tags of the item. Repeatable.")
@click.option("--no-tags", is_flag=True, help="Remove all tags.")
@click.option("--project", "project_id", metavar="ID", help="The project of the item.")
@click.option("--type", "memory_type", type=click.Choice(TYPES), help="The type of the item.")
@click.option("--source-uri", metavar="URI", help="The source of the item.")
@root_option
@json_option
def update(
    *,
    memory_id: str,
    text: str | None,
    tags: tuple[str, ...],
    no_tags: bool,
    root: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Replace the text of the item ID by TEXT, or with `-` by the text on standard input, and set the given fields.

    Without TEXT the text stays. The item keeps its ID, its time and its origin.
    """
    if tags and no_tags:
        raise UsageError("--tag and --no-tags exclude each other")
    said = None if text is None else text_or_input(text, "TEXT")
    about = {"tags": list(tags) if tags or no_tags else None, **given}
    if said is None and all(value is None for value in about.values()):
        raise UsageError(
            "there is nothing to change", hint="give TEXT, --tag, --no-tags, --project, --type, --source-uri"
        )
    with RootClient(find_root(root)) as client:
        answer = client.call("update", {"memory_id": memory_id, "text": said, **about}, progress=no_progress)
        user = user_name(client, answer["user_id"])
    if as_json:
        echo_json(answer)
    else:
        _print(answer, user)


@click.command(short_help="Delete items permanently.")
@click.argument("memory_id", metavar="ID…", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@root_option
@json_option
def forget(memory_id: tuple[str, ...], yes: bool, root: Path | None, as_json: bool) -> None:
    """Delete the items with these IDs permanently.

    An unknown ID is reported and the other items are deleted; the exit code is then 1.
    """
    with RootClient(find_root(root)) as client:
        if not yes:
            _confirm(client, memory_id)
        forget_each(client, "forget", memory_id, as_json=as_json)


def _confirm(client: RootClient, memory_ids: tuple[str, ...]) -> None:
    """Ask for confirmation; a single item is shown. Raises SymbiontError if it does not exist."""
    if len(memory_ids) > 1:
        confirm(f"Delete {counted(len(memory_ids), 'item')}?", undone="nothing was deleted")
        return
    item = client.call("get", {"memory_id": memory_ids[0]}, progress=no_progress)
    confirm(f"Delete {quoted(item)} of the collection {item['collection']}?", undone="nothing was deleted")
