"""Options that several commands of `symbi memory` have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from runtime.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

TYPES = ("fact", "pattern", "procedure", "episode", "semantic", "procedural", "episodic")


def type_option(command: F) -> F:
    """`--type`, of what is wanted."""
    return click.option("--type", "type", type=click.Choice(TYPES), help="Only this type; a fact is semantic.")(command)


def memory_option(command: F) -> F:
    """`--memory`, the same for every command."""
    return click.option("--memory", metavar="NAME", help="Only the memory that the program calls NAME.")(command)


def user_option(command: F) -> F:
    """`--user`, of what is wanted."""
    return click.option("--user", metavar="NAME", help="Only this user's.  [default: everybody's]")(command)


def all_tags_option(name: str) -> Callable[[F], F]:
    """Tags that each have to be there."""
    return click.option(name, metavar="TAG", multiple=True, help="Only with this tag; again for more, all of them.")


def gate_options(command: F) -> F:
    """`--close-governance` and `--tdd-proof` (second design)."""
    command = click.option("--tdd-proof", metavar="DONE|NA", help="Closes the gate tdd_proof: done:… or na:REASON.")(
        command
    )
    return click.option(
        "--close-governance", metavar="DONE|NA", help="Closes the gate governance: done:… or na:REASON."
    )(command)


def gates(close_governance: str | None, tdd_proof: str | None) -> dict[str, str]:
    """The gates as a store takes them. Raises UsageError for an empty one."""
    given = {"governance": close_governance, "tdd_proof": tdd_proof}
    if "" in given.values():
        raise UsageError("a gate is closed with done:… or na:REASON, not with nothing")
    return {name: text for name, text in given.items() if text is not None}
