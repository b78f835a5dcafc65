"""`symbi table export`: tables as CSV or JSON Lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal
from urllib.parse import quote

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.table.csv_text import csv_line
from runtime.cli.table.sql import tables_user_option
from runtime.cli.table.target import kind_of, table_called
from runtime.cli.terminal.output import counted, one_line, root_option
from runtime.cli.terminal.progress import no_progress, progress_bar
from runtime.daemon.process.atomic_file import replacing
from runtime.errors import UsageError

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
        schema = client.call("tables.schema", {"user": user})
        if everything:
            folder = Path(places[0])
            folder.mkdir(parents=True, exist_ok=True)
            for table in schema["tables"]:
                file = folder / f"{quote(table['name'], safe='')}.{form or 'csv'}"
                _export(client, table, str(file), form or "csv", user, schema["dialect"])
            if not schema["tables"]:
                click.echo("There are no tables.", err=True)
        else:
            table, form = table_called(schema, places[0]), format_of(places[1], form)
            _export(client, table, places[1], form, user, schema["dialect"])


def _export(
    client: RootClient, table: Mapping[str, Any], file: str, form: Format, user: str | None, dialect: str
) -> None:
    name, count = table["name"], 0
    kinds = {column["name"]: kind_of(dialect, column["type"]) for column in table["columns"]}
    on_terminal = file == "-" and sys.stdout.isatty()
    with (
        nullcontext(no_progress) if on_terminal else progress_bar(f"exporting {one_line(name)}") as progress,
        _written(file) as handle,
    ):
        for number, (columns, rows) in enumerate(_pages(client, name, user)):
            if form == "csv" and number == 0:
                handle.write(csv_line(columns))
            jsons = {place for place, column in enumerate(columns) if kinds.get(column) == "json"}
            for row in rows:
                line = csv_line(row, jsons) if form == "csv" else _json_line(columns, row, ascii_only=on_terminal)
                handle.write(line)
            count += len(rows)
            progress("", count, max(count, table["row_count"]))
    click.echo(f"exported {counted(count, 'row')}" + ("" if file == "-" else f" to {file}"), err=True)


def _pages(client: RootClient, table: str, user: str | None) -> Iterator[tuple[Sequence[str], Sequence[Sequence[Any]]]]:
    after: str | None = None
    while True:
        answer = client.call("tables.page", {"table": table, "after": after, "user": user}, progress=no_progress)
        yield answer["columns"], answer["rows"]
        after = answer["after"]
        if after is None:
            return


def _json_line(columns: Sequence[str], row: Sequence[Any], *, ascii_only: bool) -> bytes:
    """Return a row as an object on one line. `ascii_only`: without characters that control a terminal."""
    there = dict(zip(columns, row, strict=True))
    return json.dumps(there, ensure_ascii=ascii_only, separators=(",", ":")).encode() + b"\n"


@contextmanager
def _written(output: str) -> Iterator[BinaryIO]:
    """Open standard output, or a file that is replaced atomically."""
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    file = Path(output).absolute()
    if file.is_dir():
        raise UsageError(f"{output} is a folder", hint="name a file in it, or give --all")
    with ExitStack() as stack:
        try:
            handle = stack.enter_context(replacing(file))
        except OSError as error:
            raise UsageError(f"{output} cannot be written: {(error.strerror or str(error)).lower()}") from None
        yield handle
