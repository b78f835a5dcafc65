"""`symbi memory edit` and `forget`: single items."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.items import DeletionFailed, delete_each, quoted
from runtime.cli.terminal.input import text_or_input
from runtime.cli.terminal.output import confirm, counted, json_option, root_option
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo, echo_json
from runtime.errors import UsageError

_memory_option = click.option("--memory", metavar="NAME", help="Only the memory called NAME in the program.")


@click.command(short_help="Replace the text of an item.")
@click.argument("memory_id", metavar="ID")
@click.argument("text", metavar="TEXT|-")
@_memory_option
@root_option
@json_option
def edit(memory_id: str, text: str, memory: str | None, root: Path | None, as_json: bool) -> None:
    """Replace the text of the item ID by TEXT, or with `-` by the text on standard input. Other fields do not change.

    ID may be shortened to a unique prefix. The command prints the new ID: in a Markdown memory the ID depends on the
    text.
    """
    said = text_or_input(text, "TEXT")
    with RootClient(find_root(root)) as client:
        whole = _shown(client, memory_id, memory)["item"]["memory_id"]
        given = {"memory_id": whole, "text": said, "memory": memory}
        answer = client.call("memory_edit", given, progress=no_progress)
    if as_json:
        echo_json(answer)
        return
    item = answer["item"]
    same = item["memory_id"] == answer["previous_id"]
    echo(f"changed in the memory {item['memory']}; its id is {'still' if same else 'now'}", err=True)
    echo(item["memory_id"])


@click.command(short_help="Delete items permanently.")
@click.argument("memory_id", metavar="ID…", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_memory_option
@root_option
@json_option
def forget(memory_id: tuple[str, ...], yes: bool, memory: str | None, root: Path | None, as_json: bool) -> None:
    """Delete the items with these IDs permanently.

    An ID may be shortened to a unique prefix. An unknown ID is reported and the other items are deleted; the exit code
    is then 1.
    """
    with RootClient(find_root(root)) as client:
        found: list[dict[str, Any]] = []
        failed: list[DeletionFailed] = []
        for each in memory_id:
            try:
                found.append(_shown(client, each, memory))
            except UsageError as error:
                if len(memory_id) == 1:
                    raise
                failed.append(DeletionFailed(each, error.line()))
        # After a deletion an equal item in a Markdown file gets the deleted id, so the last one is deleted first.
        found.sort(key=lambda answer: (answer["file"] or "", answer["line"] or 0), reverse=True)
        items = list({answer["item"]["memory_id"]: answer["item"] for answer in found}.values())
        if items and not yes:
            _confirm(items)
        ids = [item["memory_id"] for item in items]
        delete_each(
            client, "memory_forget", "memory_id", ids, noun="item", as_json=as_json, failed=failed, memory=memory
        )


def _confirm(items: list[Mapping[str, Any]]) -> None:
    (what, place) = (counted(len(items), "item"), "") if len(items) > 1 else (quoted(items[0]), f" {_place(items[0])}")
    confirm(f"Delete {what}{place}?", undone="nothing was deleted")


def _place(item: Mapping[str, Any]) -> str:
    return f"of {item['agent_id']} in the memory {item['memory']}"


def _shown(client: RootClient, memory_id: str, memory: str | None) -> dict[str, Any]:
    """Return the item whose id begins with `memory_id`, and its location. Raises SymbiontError unless it is unique."""
    return client.call("memory_show", {"memory_id": memory_id, "memory": memory}, progress=no_progress)
