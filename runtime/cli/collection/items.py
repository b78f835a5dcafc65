"""`symbi collection get`, `update` and `forget`: single items."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.items import delete_each, print_item, quoted, user_name
from runtime.cli.terminal.output import confirm, count_text, json_option, root_option
from runtime.cli.terminal.progress import no_progress
from runtime.cli.tool_command import tool_command
from runtime.errors import UsageError


def _details(client: RootClient, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"user": user_name(client, answer["user_id"])}


get = tool_command(
    "get",
    short="Show one item and its origin.",
    doc="Show the item with this ID. `symbi collection search` prints the IDs of its hits.",
    arguments={"memory_id": "ID"},
    details=_details,
    view=print_item,
)


def _changes(given: dict[str, Any]) -> Mapping[str, Any]:
    if given.pop("no_tags"):
        if given["tags"]:
            raise UsageError("--tag and --no-tags exclude each other")
        given["tags"] = []
    if all(value is None for name, value in given.items() if name != "memory_id"):
        raise UsageError(
            "there is nothing to change", hint="give TEXT, --tag, --no-tags, --project, --type, --source-uri"
        )
    return given


update = tool_command(
    "update",
    short="Change the text or the fields of one item.",
    doc="""Replace the text of the item ID by TEXT, or with `-` by the text on standard input, and set the given fields.

    Without TEXT the text stays. The item keeps its ID, its time and its origin.
    """,
    arguments={"memory_id": "ID", "text": "[TEXT|-]"},
    more_options=[click.option("--no-tags", is_flag=True, help="Remove all tags.")],
    read=_changes,
    details=_details,
    view=print_item,
)


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
        delete_each(client, "forget", "memory_id", memory_id, noun="item", as_json=as_json)


def _confirm(client: RootClient, memory_ids: tuple[str, ...]) -> None:
    """Ask for confirmation; a single item is shown. Raises SymbiontError if it does not exist."""
    if len(memory_ids) > 1:
        confirm(f"Delete {count_text(len(memory_ids), 'item')}?", undone="nothing was deleted")
        return
    item = client.call("get", {"memory_id": memory_ids[0]}, progress=no_progress)
    confirm(f"Delete {quoted(item)} of the collection {item['collection']}?", undone="nothing was deleted")
