"""Options shared by commands of `symbi memory`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from runtime.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

TYPES = ("fact", "pattern", "procedure", "episode", "semantic", "procedural", "episodic")


def type_option(command: F) -> F:
    """Add the filter `--type`."""
    return click.option(
        "--type", "type", type=click.Choice(TYPES), help="Only items of this type; facts and patterns are semantic."
    )(command)


def memory_option(command: F) -> F:
    """Add `--memory`."""
    return click.option("--memory", metavar="NAME", help="Only the memory called NAME in the program.")(command)


def user_option(command: F) -> F:
    """Add the filter `--user`."""
    return click.option("--user", metavar="NAME", help="Only items of this user.  [default: all users]")(command)


def tag_options(command: F) -> F:
    """Add the filters `--tag` and `--all-tags`."""
    more = "Only items with this tag. Repeatable: items with"
    command = click.option("--all-tags", metavar="TAG", multiple=True, help=f"{more} all of them match.")(command)
    return click.option("--tag", metavar="TAG", multiple=True, help=f"{more} any of them match.")(command)


NOT_APPLICABLE = "na:"


def gate_options(command: F) -> F:
    """Add `--close-governance` and `--tdd-proof` (second design)."""
    command = click.option(
        "--tdd-proof",
        metavar="PROOF|NA",
        help="For records with gates: close tdd_proof with 'red:TEST green:TEST' or na:REASON.",
    )(command)
    return click.option(
        "--close-governance",
        metavar="DONE|NA",
        help="For records with gates: close governance with done:WHAT or na:REASON.",
    )(command)


def gates(close_governance: str | None, tdd_proof: str | None, evidence: Sequence[str] = ()) -> dict[str, str]:
    """Return the closing of each gate, as a store accepts it; from `evidence` only a reason why none is needed.

    Raises UsageError for an empty one.
    """
    reason = next((each for each in evidence if each.startswith(NOT_APPLICABLE)), None)
    given = {"governance": close_governance, "tdd_proof": tdd_proof, "evidence": reason}
    if "" in given.values():
        raise UsageError("an empty value does not close a gate", hint="give done:WHAT or na:REASON")
    return {name: text for name, text in given.items() if text is not None}
