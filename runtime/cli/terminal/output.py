"""Output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, TypeVar

import click

from runtime.cli.terminal.table import print_rows
from runtime.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

WEBHOOKS = ("webhook", "path", "provider", "agent", "state", "secret")
"""The columns of every list of webhooks."""


def root_option(command: F) -> F:
    """Add `--root`."""
    return click.option(
        "--root",
        type=click.Path(file_okay=False, path_type=Path),
        help="The folder that contains .symbi/. Default: SYMBIONT_ROOT, else STATE_DIRECTORY, else the nearest one "
        "upward from here.",
    )(command)


def newest_option(most: int = 1000, what: str = "", *, name: str = "--tail") -> Callable[[F], F]:
    """Return a decorator that adds `--tail N`, or the option `name`, as the parameter `limit`, at most `most`.

    `what`: what is shown.
    """
    return click.option(
        name,
        "limit",
        default=20,
        show_default=True,
        metavar="N",
        type=click.IntRange(1, most),
        help=f"Show at most the newest N{what}.",
    )


def user_option(what: str) -> Callable[[F], F]:
    """Return a decorator that adds `--user NAME` with the default `owner`. `what`: what the user is for, a sentence."""
    return click.option("--user", metavar="NAME", help=f"{what}  [default: owner]")


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def print_json(value: Any) -> None:
    """Print one JSON document, indented, on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    empty: str,
    style: Callable[[str], str] | None = None,
) -> None:
    """Print a table that fits the terminal, or of any width into a pipe; `empty` if there are no rows. `style`: returns
    the colour of a cell; None: `colour_of`."""
    content = [tuple(map(printable, row)) for row in rows]
    if not content:
        click.echo(empty)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print_rows(columns, content, width=width, style=style or colour_of)


def counted(number: int, one: str, several: str | None = None) -> str:
    """Return `1 item`, `2,000 items`. `several`: the plural, if it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def confirm(question: str, *, undone: str) -> None:
    """Return if the user confirms; else print `undone` and exit with code 1.

    Raises UsageError if standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Cannot ask: standard input is not a terminal", hint="give --yes to confirm")
    if not click.confirm(question, err=True):
        click.echo(undone, err=True)
        sys.exit(1)


def printable(text: str) -> str:
    """Return `text` with U+FFFD for characters that move a terminal's cursor, change its colours or are invisible.

    The joiners (U+200C, U+200D), which some languages and emoji need, tabs and line ends stay.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in _KEPT else "\ufffd" for each in text)


_KEPT = "\t\n\u200c\u200d"


def as_read(text: str) -> str:
    """Return the exact text for a program, and a printable one for a terminal."""
    return printable(text) if sys.stdout.isatty() else text


def one_line(text: str) -> str:
    """Return `text` as `printable` does, in one line."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def local_time(text: str, zone: tzinfo | None = None) -> str:
    """Return a time in RFC 3339 as the time in `zone`; None: that of the machine."""
    return datetime.fromisoformat(text).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")


def with_zone(text: str | None) -> str | None:
    """Add this machine's offset to a date or time without one; return anything else unchanged."""
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo else read.astimezone()).isoformat()
    except (ValueError, OverflowError):  # not a time, or one at the limits of the calendar
        return text


def colour_of(cell: str) -> str:
    """Return the colour of a state, or of how a run ended; an empty string for any other word."""
    match cell:
        case "accepted" | "mounted" | "done" | "kept" | "answered" | "GREEN":
            return "green"
        case "refused" | "not mounted" | "dead" | "failed" | "RED":
            return "red"
        case "filtered" | "repeated" | "queued" | "running" | "waiting" | "cancelled" | "YELLOW":
            return "yellow"
        case "max_steps" | "model_unavailable" | "agent_gone" | "switched_off" | "awaiting" | "budget_exceeded":
            return "yellow"
    return ""
