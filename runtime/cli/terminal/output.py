"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from runtime.cli.terminal.table import print_rows
from runtime.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

WEBHOOKS = ("webhook", "path", "provider", "agent", "state", "secret")
"""The columns of webhooks, in whichever command they are listed."""


def root_option(command: F) -> F:
    """`--root`, the same for every command."""
    return click.option(
        "--root",
        type=click.Path(file_okay=False, path_type=Path),
        help="The folder that contains .symbi/. Default: SYMBIONT_ROOT, else the nearest one upward from here.",
    )(command)


def json_option(command: F) -> F:
    """`--json`, the same for every command."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def print_json(value: Any) -> None:
    """One JSON document, indented, on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, empty: str) -> None:
    """A table that fits the terminal, and is as wide as it is when piped; `empty` when there are no rows."""
    content = [tuple(map(printable, row)) for row in rows]
    if not content:
        click.echo(empty)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print_rows(columns, content, width=width, style=colour_of)


def counted(number: int, what: str) -> str:
    """`1 item`, `2,000 items`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def confirm(question: str, *, undone: str) -> None:
    """Go on when a person says yes; else end the command with exit code 1, saying `undone`.

    Raises UsageError where nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask on", hint="say --yes to do it without being asked")
    if not click.confirm(question, err=True):
        click.echo(undone, err=True)
        sys.exit(1)


def printable(text: str) -> str:
    """`text` without what moves a terminal's cursor, changes its colours or is not seen at all: U+FFFD instead.

    The joiners (U+200C, U+200D) that some languages and emoji are written with stay, and so do tabs and line ends.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in _KEPT else "\ufffd" for each in text)


_KEPT = "\t\n\u200c\u200d"


def one_line(text: str) -> str:
    """`text` as `printable` has it, in one line: what stands in a line of ours begins none of its own."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def local_time(text: str) -> str:
    """A time in RFC 3339 as this machine's clock would show it."""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def with_zone(text: str | None) -> str | None:
    """A date or time without an offset as one with this machine's, as the tables show it; anything else as it is."""
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo else read.astimezone()).isoformat()
    except (ValueError, OverflowError):  # no time, or one at the ends of the calendar that has no other zone
        return text


def colour_of(cell: str) -> str:
    """The colour of a word that says how something stands; nothing for any other."""
    match cell:
        case "accepted" | "mounted" | "done" | "kept" | "GREEN":
            return "green"
        case "refused" | "not mounted" | "dead" | "RED":
            return "red"
        case "filtered" | "repeated" | "queued" | "running" | "YELLOW":
            return "yellow"
    return ""
