"""Results of statements, for a terminal."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from runtime.cli.terminal.output import count_text, print_table
from runtime.cli.terminal.screen import echo, one_line
from runtime.cli.terminal.table import cell_width, print_rows

NULL: Final = "NULL"
_LOOKS_EMPTY: Final = frozenset({"", "-", NULL})
"""Texts that would look like no value."""
_LONGEST: Final = 500
"""Maximum characters of a value on a terminal."""


def print_result(answer: Mapping[str, Any]) -> None:
    """Print the result of a statement: its rows, or how many it changed. NULL is dim, numbers are to the right."""
    columns, rows = answer["columns"], answer["rows"]
    if not columns:
        echo(f"done; {count_text(answer['affected_rows'], 'row')} changed")
        return
    values = [[row[name] for name in columns] for row in rows]
    if values:
        _print_values(columns, values)
    more = "; there are more, which LIMIT and OFFSET select" if answer["truncated"] else ""
    echo(f"{count_text(len(rows), 'row')}{more}", dim=not more, fg="yellow" if more else None, err=True)


def _print_values(columns: Sequence[str], values: Sequence[Sequence[Any]]) -> None:
    cells = [[_cell_text(value) for value in row] for row in values]
    heads = [one_line(name) for name in columns]
    for place in range(len(columns)):
        if all(isinstance(row[place], int | float) and not isinstance(row[place], bool) for row in values):
            size = max(cell_width(heads[place]), *(cell_width(row[place]) for row in cells))
            heads[place] = heads[place].rjust(size)
            for row in cells:
                row[place] = row[place].rjust(size)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print_rows(heads, [tuple(row) for row in cells], width=width, style=_style)


def _cell_text(value: Any) -> str:
    """Return a value as a cell. Texts that look like NULL or nothing are in quotes."""
    if value is None:
        return NULL
    if not isinstance(value, str):
        return one_line(json.dumps(value, ensure_ascii=False))
    if value in _LOOKS_EMPTY:
        return f"'{value}'"
    if sys.stdout.isatty() and len(value) > _LONGEST:
        value = f"{value[:_LONGEST]}… ({len(value):,} characters)"
    return one_line(value)


def _style(cell: str) -> str:
    return "bright_black" if cell.strip() == NULL else ""


def print_schema(answer: Mapping[str, Any]) -> None:
    """Print the tables with their columns, and what they take."""
    rows = [
        (
            table["name"] if place == 0 else "",
            f"{table['row_count']:,}" if place == 0 else "",
            column["name"],
            column["type"],
            "" if column["nullable"] else "not null",
        )
        for table in answer["tables"]
        for place, column in enumerate(table["columns"])
    ]
    print_table(("table", "rows", "column", "type", ""), rows, empty="There are no tables.")
    used, percent = answer["total_storage_bytes"], answer["quota_used_percent"]
    echo(f"{answer['dialect']}; {used:,} bytes with the key-value store, {percent:g}% of the quota", dim=True)
