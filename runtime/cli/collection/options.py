"""Options shared by commands of `symbi collection`, named after the tools' parameters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from runtime.cli.terminal.output import with_zone

F = TypeVar("F", bound=Callable[..., Any])

TYPES = ("episodic", "semantic", "procedural")


def collection_option(command: F) -> F:
    """Add `--collection`."""
    return click.option("--collection", metavar="NAME", help="The collection.  [default: the default collection]")(
        command
    )


def wanted_options(command: F) -> F:
    """Add the filters `--project`, `--type` and `--tag`."""
    several = "Only items with this tag. Repeatable: items with any of them match."
    for option in (
        click.option("--tag", "tags", metavar="TAG", multiple=True, help=several),
        click.option("--type", "memory_type", type=click.Choice(TYPES), help="Only items of this type."),
        click.option("--project", "project_id", metavar="ID", help="Only items of this project."),
    ):
        command = option(command)
    return command


def time_range(since: str | None, until: str | None) -> dict[str, str] | None:
    """Return both ends in RFC 3339, as tools accept them; None if neither is given. Raises UsageError."""
    ends = {"start": _moment(since, "--since"), "end": _moment(until, "--until")}
    return {name: text for name, text in ends.items() if text is not None} or None


def _moment(text: str | None, option: str) -> str | None:
    if text is None:
        return None
    from runtime.clock import SYSTEM
    from runtime.memory.item import rfc3339
    from runtime.tools.time_input import read_moment

    return rfc3339(read_moment(with_zone(text) or text, option, SYSTEM))


def now() -> str:
    """Return the present time in RFC 3339."""
    from runtime.memory.item import rfc3339

    return rfc3339(datetime.now(UTC))
