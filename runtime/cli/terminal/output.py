"""Output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, TypeVar

import click

from runtime.cli.terminal.screen import ask, echo
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


def newest_option(most: int = 1000, what: str = "", *, default: int = 20) -> Callable[[F], F]:
    """Return a decorator that adds `--limit N`, at most `most`. `what`: what is shown."""
    return click.option(
        "--limit",
        default=default,
        show_default=True,
        metavar="N",
        type=click.IntRange(1, most),
        help=f"Show at most the newest N{what}.",
    )


def user_option(what: str) -> Callable[[F], F]:
    """Return a decorator that adds `--user NAME` with the default `owner`. `what`: what the user is for, a sentence."""
    return click.option("--user", metavar="NAME", help=f"{what}  [default: owner]")


def subject_option(what: str) -> Callable[[F], F]:
    """Return a decorator that adds `--subject TEXT`. `what`: what belongs to the subject."""
    sentence = f"{what} this subject of keyed threads, such as a customer's number."
    return click.option("--subject", metavar="TEXT", help=sentence)


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    empty: str,
    style: Callable[[str], str] | None = None,
) -> None:
    """Print a table that fits the terminal, or of any width into a pipe; `empty` if there are no rows. `style`: returns
    the colour of a cell; None: `colour_of`."""
    content = [tuple(row) for row in rows]
    if not content:
        echo(empty)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print_rows(columns, content, width=width, style=style or colour_of)


def beginning(text: str, most: int) -> str:
    """Return a text as one line of at most `most` characters."""
    line = " ".join(text[: 10 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def count_text(number: int, one: str, several: str | None = None) -> str:
    """Return `1 item`, `2,000 items`. `several`: the plural, if it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def confirm(question: str, *, undone: str) -> None:
    """Return if the user confirms; else print `undone` and exit with code 1.

    Raises UsageError if standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Cannot ask: standard input is not a terminal", hint="give --yes to confirm")
    if not ask(question):
        echo(undone, err=True)
        sys.exit(1)


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
