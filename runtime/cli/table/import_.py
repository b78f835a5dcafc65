"""`symbi table import`: rows from CSV or JSON Lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from dslc.blocks.values.quantity import format_size
from runtime.cli.client import RootClient, find_root
from runtime.cli.table.csv_text import BadLine
from runtime.cli.table.export import Format, format_of, format_option
from runtime.cli.table.records import CsvFile, JsonLinesFile, Records, Row
from runtime.cli.table.sql import tables_user_option
from runtime.cli.table.target import TYPES, Kind, find_columns, find_table, kind_of
from runtime.cli.terminal.input import open_input
from runtime.cli.terminal.output import count_text, json_option, root_option
from runtime.cli.terminal.progress import no_progress, progress_bar
from runtime.cli.terminal.screen import echo, echo_json
from runtime.errors import SymbiontError, UsageError
from runtime.tables.statement import quoted

LARGEST: Final = 16_000_000
"""Maximum bytes of the rows of one transaction, as JSON."""
MOST_ROWS: Final = 500_000
"""Maximum rows of one transaction: small ones take more time and memory than bytes."""


@click.command("import", short_help="Insert the rows of a CSV or JSON Lines file.")
@click.argument("source", metavar="FILE|-")
@click.argument("name", metavar="TABLE")
@click.option("--create", is_flag=True, help="Create the table first, with types that fit the values.")
@click.option("--delimiter", metavar="CHAR|TAB", default=",", show_default=True, help="What separates cells of CSV.")
@click.option(
    "--batches",
    is_flag=True,
    help=f"Allow a file with more than {format_size(LARGEST)} of values or {MOST_ROWS:,} rows: it is inserted in "
    "several transactions.",
)
@format_option
@tables_user_option
@root_option
@json_option
def import_(
    *,
    source: str,
    name: str,
    create: bool,
    delimiter: str,
    batches: bool,
    form: Format | None,
    user: str | None,
    root: Path | None,
    as_json: bool,
) -> None:
    """Insert the rows of FILE, or with `-` of standard input, into TABLE: all of them, or none.

    The first line of CSV has the names of the columns; each line of JSON Lines is an object. An empty cell is NULL,
    and one in quotes is the empty text. The whole file is read before anything is inserted.
    """
    delimiter = "\t" if delimiter.upper() == "TAB" else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UsageError("--delimiter: it is one character, or TAB")
    shown = "standard input" if source == "-" else source
    with _seekable_input(source) as file, RootClient(find_root(root)) as client, progress_bar("importing") as progress:
        try:
            csv = format_of(source, form) == "csv"
            records: Records = CsvFile(file, delimiter) if csv else JsonLinesFile(file)
            target = _Target(client, name, user)
            if create:
                target.create(records)
            try:
                size = file.seek(0, os.SEEK_END)
                count = 0
                for rows in _transactions(records, target.column_kinds(records), target.dialect, batches=batches):
                    target.insert(rows)
                    count += len(rows)
                    progress("", rows[-1].read, size)
            except BaseException as error:
                if create:
                    # If that fails too, the first error says more.
                    with suppress(SymbiontError):
                        target.drop()
                elif count and isinstance(error, SymbiontError):
                    stored = f"the {count_text(count, 'row')} before line {rows[0].line} are stored"
                    error.hint = f"{error.hint}; {stored}" if error.hint else stored
                raise
        except BadLine as error:
            raise UsageError(f"{shown}:{error.number}: {error}", hint=error.hint) from None
    if as_json:
        echo_json({"table": target.name, "inserted": count, "created": create})
    else:
        echo(f"inserted {count_text(count, 'row')} into {target.name}")


@contextmanager
def _seekable_input(source: str) -> Iterator[BinaryIO]:
    """Open a file, or the content of standard input for `-`. Raises UsageError."""
    with open_input(source) as file:
        if source != "-" and not file.seekable():
            raise UsageError(f"{source} is not a file", hint="give - to read standard input")
        yield BytesIO(file.read()) if source == "-" else file


class _Target:
    """The table of a user that rows are inserted into."""

    def __init__(self, client: RootClient, name: str, user: str | None) -> None:
        self.name = name
        self._client = client
        self._user = user
        self._schema = self._ask("agent_memory_schema")
        self._columns: Sequence[str] = ()

    @property
    def dialect(self) -> str:
        """The dialect of its database."""
        return str(self._schema["dialect"])

    def create(self, records: Records) -> None:
        """Create it with the columns of a file. Raises UsageError if there is one already."""
        if any(table["name"].casefold() == self.name.casefold() for table in self._schema["tables"]):
            raise UsageError(f"there is a table {self.name} already", hint="leave out --create, or give another name")
        types = TYPES[self.dialect]
        columns = ", ".join(
            f"{quoted(column)} {types[kind or 'text']}"
            for column, kind in zip(records.columns, records.kinds, strict=True)
        )
        self._ask("agent_memory_sql", query=f"CREATE TABLE {quoted(self.name)} ({columns})")
        self._schema = self._ask("agent_memory_schema")

    def drop(self) -> None:
        """Delete it again."""
        self._ask("agent_memory_sql", query=f"DROP TABLE {quoted(self.name)}")

    def column_kinds(self, records: Records) -> Sequence[Kind]:
        """Return what its columns take, in the order of those of a file. Raises UsageError with the nearest names."""
        try:
            table = find_table(self._schema, self.name)
        except UsageError as error:
            raise UsageError(str(error), hint=f"{error.hint}; --create creates it") from None
        columns = find_columns(table, records.columns)
        self.name, self._columns = table["name"], [column["name"] for column in columns]
        return [kind_of(self.dialect, column["type"]) for column in columns]

    def insert(self, rows: Sequence[Row]) -> None:
        """Insert rows: all, or none. Raises BadLine for one that cannot be inserted."""
        given = {"columns": self._columns, "rows": [row.values for row in rows]}
        failed = self._ask("table_insert", table=self.name, **given)["failed"]
        if failed is not None:
            raise BadLine(rows[failed["row"]].line, failed["reason"], hint=failed["hint"])

    def _ask(self, operation: str, **given: Any) -> Mapping[str, Any]:
        return self._client.call(operation, given, user=self._user, progress=no_progress)


def _transactions(records: Records, kinds: Sequence[Kind], dialect: str, *, batches: bool) -> Iterator[Sequence[Row]]:
    """Yield the rows of each transaction: all of them at once, if `batches` is not given. Raises BadLine and UsageError
    before the first."""
    if batches:
        for _ in records.rows(kinds, dialect):
            pass
    rows, size = list[Row](), 0
    for row in records.rows(kinds, dialect):
        more = len(json.dumps(row.values))
        if rows and (size + more > LARGEST or len(rows) == MOST_ROWS):
            if not batches:
                raise UsageError(
                    f"the file has more than {format_size(LARGEST)} of values or {MOST_ROWS:,} rows: too much for "
                    "one transaction",
                    hint="split it, or allow several transactions with --batches",
                )
            yield rows
            rows, size = [], 0
        rows.append(row)
        size += more
    if rows:
        yield rows
