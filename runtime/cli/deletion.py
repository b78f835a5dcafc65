"""Deletion of items, shared by `symbi memory forget` and `symbi collection forget`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from runtime.cli.client import RootClient
from runtime.cli.terminal.output import counted
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo, echo_json, one_line
from runtime.errors import SymbiontError

_SHOWN = 60
"""Characters of an item's text in a confirmation."""


def quoted(item: Mapping[str, Any]) -> str:
    """Return the beginning of the item's text, in quotation marks."""
    text = " ".join(item["text"].split())
    return f"“{one_line(text if len(text) <= _SHOWN else f'{text[: _SHOWN - 1]}…')}”"


class DeletionFailed(NamedTuple):
    """An id, and the reason why its item was not deleted."""

    memory_id: str
    message: str


def forget_each(
    client: RootClient,
    tool: str,
    memory_ids: Iterable[str],
    *,
    as_json: bool,
    failed: Sequence[DeletionFailed] = (),
    **given: Any,
) -> None:
    """Delete the items with these ids by calling `tool`, and print the results.

    An item that cannot be deleted is reported, like those in `failed`; the others are deleted, and the exit code is 1.
    Raises SymbiontError if there is only one.
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
            failed.append(DeletionFailed(each, error.line()))
    if as_json:
        echo_json({"forgotten": done, "failed": [refused._asdict() for refused in failed]})
    else:
        for refused in failed:
            echo(refused.message, fg="red", err=True)
        echo(f"deleted {counted(len(done), 'item')}")
    if failed:
        sys.exit(1)
