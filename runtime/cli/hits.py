"""How both searches show their hits."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from runtime.cli.output import one_line
from runtime.cli.passage import print_passage
from runtime.search.question import RECOMMENDED_THRESHOLD

F = TypeVar("F", bound=Callable[..., Any])


def threshold_option(command: F) -> F:
    """`--threshold`, the same for both."""
    return click.option(
        "--threshold",
        "score_threshold",
        type=float,
        metavar="0…1",
        help=f"Only with this relevance or more; {RECOMMENDED_THRESHOLD:g} leaves out what only looks like an answer.",
    )(command)


def print_hit(
    head: Sequence[str], where: Sequence[str], text: str, query: str, *, explained: str | None = None
) -> None:
    """Its head, where it is from, and the passage that answers; `explained` says how its score came about."""
    _print_head(one_line("  ".join(head)), list(map(one_line, where)))
    if explained is not None:
        click.secho(f"    {explained}", dim=True)
    print_passage(text, query)


def _print_head(head: str, where: Sequence[str]) -> None:
    """In one line; what does not fit into a terminal's stands in the next one, so that an id can be copied."""
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    line, used = click.style(head, bold=True), len(head)
    for part in where:
        if used + 2 + len(part) > room:
            click.echo(line)
            line, used = f"    {part}", 4 + len(part)
        else:
            line, used = f"{line}  {part}", used + 2 + len(part)
    click.echo(line)
