"""The parts of an agent's context as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.agents.context.fields import Budget, window_line
from runtime.cli.terminal.output import print_table
from runtime.cli.terminal.screen import echo


def print_parts(answer: Mapping[str, Any]) -> None:
    """Print the answer of the operation `agents.context`."""
    budget = Budget(answer["window"], answer["reply"], answer["window_source"])
    room = budget.request
    rows = [
        (part["name"], f"{part['tokens']:,}", f"{100 * part['tokens'] / room:.1f}%", part["note"] or "-")
        for part in answer["parts"]
    ]
    print_table(("part", "tokens", "of the room", "note"), rows, empty="The context is empty.")
    echo()
    echo(
        f"{answer['tokens']:,} of {room:,} tokens; {window_line(budget)}; {answer['reply']:,} of them are for the reply"
    )
    for note in answer["notes"]:
        echo(note, fg="yellow")
