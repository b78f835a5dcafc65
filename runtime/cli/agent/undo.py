"""`symbi agent undo`: takes back what one run wrote."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.terminal.output import confirm, counted, json_option, print_table, root_option, user_option
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo, echo_json

_ITEMS = {
    "deleted": "deleted",
    "retracted": "withdrawn by a retraction",
    "replaced": "left: replaced since by {}",
    "unchanged": "taken back before",
}
_BLOCKS = {
    "restored": "restored",
    "edited": "left: edited since",
    "too_old": "left: its text from before the run is not stored any more",
    "unchanged": "has its text from before the run already",
}
_TAKEN_BACK = ("deleted", "retracted", "restored")
_NOTHING = "nothing was changed"


@click.command(short_help="Take back what a run wrote.")
@click.argument("run")
@user_option("The run is one for this user.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@root_option
@json_option
def undo(run: str, user: str | None, yes: bool, root: Path | None, as_json: bool) -> None:
    """Take back what RUN wrote to memories and to blocks of core memory.

    Items are deleted, in records withdrawn by a retraction; what they had replaced is valid again. Blocks get their
    text from before the run. What was replaced or edited since is reported and left; the exit code is then 1.
    """
    asked = {"run_id": run}
    with RootClient(find_root(root)) as client:
        if not yes:
            going = client.call("run_undo", {**asked, "dry_run": True}, user=user, progress=no_progress)
            if going["changed"]:
                confirm(f"Take back what the run {run} of {going['agent']} wrote ({_amount(going)})?", undone=_NOTHING)
        answer = client.call("run_undo", asked, user=user, progress=no_progress)
    if as_json:
        echo_json(answer)
    else:
        rows = [*_memory_rows(answer), *map(_block_row, answer["blocks"])]
        if rows:
            print_table(("where", "what", "result"), rows, empty="")
        if not answer["changed"]:
            why = ": nothing that the run wrote is left to take back" if answer["complete"] else ""
            echo(f"{_NOTHING}{why}")
        for note in answer["notes"]:
            echo(note, fg="yellow", err=True)
    if not answer["complete"]:
        sys.exit(1)


def _amount(answer: Mapping[str, Any]) -> str:
    """Return how much would be taken back."""
    found = []
    for memory in answer["memories"]:
        count = sum(item["outcome"] in _TAKEN_BACK for item in memory["items"])
        if count:
            found.append(f"{counted(count, 'item')} in the memory {memory['memory']}")
    blocks = [block["label"] for block in answer["blocks"] if block["outcome"] in _TAKEN_BACK]
    if blocks:
        found.append(f"the block{'' if len(blocks) == 1 else 's'} {', '.join(blocks)}")
    return " and ".join(found)


def _memory_rows(answer: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for memory in answer["memories"]:
        counts = Counter(_ITEMS[item["outcome"]].format(item["replaced_by"]) for item in memory["items"])
        for result, count in counts.items():
            yield f"memory {memory['memory']}", counted(count, "item"), result


def _block_row(block: Mapping[str, Any]) -> tuple[str, ...]:
    whose = "" if block["subject"] is None else f" of {block['subject']}"
    return f"block {block['label']}{whose}", f"version {block['version']}", _BLOCKS[block["outcome"]]
