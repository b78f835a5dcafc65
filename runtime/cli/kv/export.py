"""`symbi kv export`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.terminal.output import counted, root_option, subject_option
from runtime.cli.terminal.output_file import json_line, output_option, written
from runtime.cli.terminal.progress import no_progress, progress_bar
from runtime.cli.terminal.screen import echo

PAGE: Final = 500
"""Entries that are asked for at once, so that the daemon can do other work in between."""


@click.command(short_help="Export all entries as JSON Lines.")
@output_option
@subject_option("Only entries of")
@root_option
def export(output: str, subject: str | None, root: Path | None) -> None:
    """Export all entries, one JSON object per line, in the order in which they were created."""
    found = find_root(root)
    count, cursor = 0, None
    on_terminal = output == "-" and sys.stdout.isatty()
    with (
        nullcontext(no_progress) if on_terminal else progress_bar("exporting") as progress,
        written(output) as file,
        RootClient(found) as client,
    ):
        while True:
            wanted = {"subject": subject, "limit": PAGE, "cursor": cursor}
            answer = client.call("agent_memory_kv_export", wanted, progress=no_progress)
            for entry in answer["entries"]:
                file.write(json_line(entry, on_terminal=on_terminal))
            count += len(answer["entries"])
            progress("", count, answer["total"])
            cursor = answer["next_cursor"]
            if cursor is None:
                break
    echo(f"exported {counted(count, 'entry', 'entries')}" + ("" if output == "-" else f" to {output}"), err=True)
