"""`symbi table export`: tables as CSV or JSON Lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.table.csv_text import csv_line
from runtime.cli.table.sql import tables_user_option
from runtime.cli.table.target import find_table, kind_of
from runtime.cli.terminal.output import count_text, root_option
from runtime.cli.terminal.output_file import json_line, open_output
from runtime.cli.terminal.progress import no_progress, progress_bar
from runtime.cli.terminal.screen import echo, printable
from runtime.daemon.process.root_owner import as_invoker

Format = Literal["csv", "jsonl"]
ENDINGS: Final[Mapping[str, Format]] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""The formats of files by the ends of their names."""

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl"]),
    help="The format.  [default: by the end of the file's name, else csv]",
)


def format_of(file: str, form: Format | None) -> Format:
    """Return the format that is asked for, or that of the file by its name."""
    return form or ENDINGS.get(Path(file).suffix.lower(), "csv")


@click.command(short_help="Write tables to files, as CSV or JSON Lines.")
@click.argument("places", metavar="TABLE FILE|-", nargs=-1, required=True)
@click.option("--all", "everything", is_flag=True, help="Every table, each to a file in the folder that is given.")
@format_option
@tables_user_option
@root_option
def export(
    *, places: tuple[str, ...], everything: bool, form: Format | None, user: str | None, root: Path | None
) -> None:
    """Write the rows of TABLE to FILE, or with `-` to standard output. `--all FOLDER` writes each table to a file.

    An existing file is replaced at the end, atomically. `symbi table import` reads it again without a difference: in
    CSV, texts are in quotes, and NULL is an empty cell without them.
    """
    if len(places) != (1 if everything else 2):
        raise click.UsageError("give --all and a FOLDER" if everything else "give a TABLE and a FILE, or --all FOLDER")
    with RootClient(find_root(root)) as client:
        schema = client.call("agent_memory_schema", user=user)
        if everything:
            folder = Path(places[0])
            with as_invoker():
                folder.mkdir(parents=True, exist_ok=True)
            for table in schema["tables"]:
                file = folder / f"{quote(table['name'], safe='')}.{form or 'csv'}"
                _export(client, table, str(file), form or "csv", user, schema["dialect"])
            if not schema["tables"]:
                echo("There are no tables.", err=True)
        else:
            table, form = find_table(schema, places[0]), format_of(places[1], form)
            _export(client, table, places[1], form, user, schema["dialect"])


def _export(
    client: RootClient, table: Mapping[str, Any], file: str, form: Format, user: str | None, dialect: str
) -> None:
    name, count = table["name"], 0
    kinds = {column["name"]: kind_of(dialect, column["type"]) for column in table["columns"]}
    on_terminal = file == "-" and sys.stdout.isatty()
    with (
        nullcontext(no_progress) if on_terminal else progress_bar(f"exporting {name}") as progress,
        open_output(file) as handle,
    ):
        for number, (columns, rows) in enumerate(_pages(client, name, user)):
            if form == "csv" and number == 0:
                handle.write(_csv(columns, frozenset(), on_terminal=on_terminal))
            jsons = {place for place, column in enumerate(columns) if kinds.get(column) == "json"}
            for row in rows:
                if form == "csv":
                    handle.write(_csv(row, jsons, on_terminal=on_terminal))
                else:
                    handle.write(json_line(dict(zip(columns, row, strict=True)), on_terminal=on_terminal))
            count += len(rows)
            progress("", count, max(count, table["row_count"]))
    echo(f"exported {count_text(count, 'row')}" + ("" if file == "-" else f" to {file}"), err=True)


def _pages(client: RootClient, table: str, user: str | None) -> Iterator[tuple[Sequence[str], Sequence[Sequence[Any]]]]:
    after: str | None = None
    while True:
        answer = client.call("table_page", {"table": table, "after": after}, user=user, progress=no_progress)
        yield answer["columns"], answer["rows"]
        after = answer["after"]
        if after is None:
            return


def _csv(values: Sequence[Any], json_columns: Set[int], *, on_terminal: bool) -> bytes:
    """Return values as one record; on a terminal without characters that control it."""
    line = csv_line(values, json_columns)
    return printable(line.decode()).encode() if on_terminal else line
