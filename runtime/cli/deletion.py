"""What `symbi memory forget` and `symbi collection forget` have in common."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from runtime.cli.client import RootClient
from runtime.cli.terminal.output import counted, one_line, print_json
from runtime.cli.terminal.progress import no_progress
from runtime.errors import SymbiontError

_SHOWN = 60
"""Characters of an item's text by which a person knows it."""


def quoted(item: Mapping[str, Any]) -> str:
    """The beginning of what an item says, in quotation marks."""
    text = " ".join(item["text"].split())
    return f"“{one_line(text if len(text) <= _SHOWN else f'{text[: _SHOWN - 1]}…')}”"


class Failed(NamedTuple):
    """An id that was given, and why what it names was not forgotten."""

    memory_id: str
    message: str


def forget_each(
    client: RootClient,
    tool: str,
    memory_ids: Iterable[str],
    *,
    as_json: bool,
    failed: Sequence[Failed] = (),
    **given: Any,
) -> None:
    """Have `tool` forget the items with these ids, and say what became of each.

    One that cannot be forgotten is named like those that `failed` before, and the others are forgotten; the exit code
    is 1 then. Raises SymbiontError for the only one.
    """
    ids = tuple(dict.fromkeys(memory_ids))
    done: list[dict[str, Any]] = []
    failed = list(failed)
    for each in ids:
        try:
            done.append(client.call(tool, {"memory_id": each, **given}, progress=no_progress))
        except SymbiontError as error:
            if len(ids) == 1 and not failed:
                raise
            failed.append(Failed(each, error.line()))
    if as_json:
        print_json({"forgotten": done, "failed": [refused._asdict() for refused in failed]})
    else:
        for refused in failed:
            click.secho(one_line(refused.message), fg="red", err=True)
        click.echo(f"forgot {counted(len(done), 'item')}")
    if failed:
        sys.exit(1)
