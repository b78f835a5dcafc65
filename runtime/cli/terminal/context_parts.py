"""The parts of an agent's context as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from runtime.cli.terminal.output import print_table, printable


def print_parts(answer: Mapping[str, Any]) -> None:
    """Print the answer of the operation `agents.context`."""
    room = answer["window"] - answer["reply"]
    rows = [
        (part["name"], f"{part['tokens']:,}", f"{100 * part['tokens'] / room:.1f}%", part["note"] or "-")
        for part in answer["parts"]
    ]
    print_table(("part", "tokens", "of the room", "note"), rows, empty="The context is empty.")
    click.echo(
        f"\n{answer['tokens']:,} of {room:,} tokens; "
        f"the window has {answer['window']:,}, of which {answer['reply']:,} are for the reply"
    )
    for note in answer["notes"]:
        click.secho(printable(note), fg="yellow")
