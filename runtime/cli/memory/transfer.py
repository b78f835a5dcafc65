"""`symbi memory export` and `import`: transfer between stores, as JSON Lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.items import problem_text
from runtime.cli.memory.write import GATES, gates
from runtime.cli.terminal.input import open_input
from runtime.cli.terminal.output import count_text, json_option, root_option
from runtime.cli.terminal.output_file import export_lines, output_option
from runtime.cli.terminal.progress import no_progress, progress_bar
from runtime.cli.terminal.screen import echo, echo_json

PAGE = 500
"""Items requested, and lines sent, at once, so that the daemon can do other work in between."""
LARGEST_BATCH = 2 * 1024 * 1024
"""Maximum bytes of lines sent at once, unless a single line is longer."""
LARGEST_LINE = 32 * 1024 * 1024
"""Maximum bytes of a line."""


@click.command(short_help="Export items as JSON Lines.")
@click.argument("agent", required=False)
@output_option
@click.option("--user", metavar="NAME", help="Only items of this user.  [default: all users]")
@click.option("--memory", metavar="NAME", help="Only the memory called NAME in the program.")
@root_option
def export(agent: str | None, output: str, user: str | None, memory: str | None, root: Path | None) -> None:
    """Export everything that all agents or AGENT remember, one JSON object per line, in the order of the store.

    `symbi memory import` imports it into any store. Exit code 1 if something could not be read and is missing.
    """
    problems: list[dict[str, str]] = []

    def rows(answer: dict[str, Any]) -> list[dict[str, Any]]:
        problems.extend(answer["problems"])
        return [
            {name: value for name, value in item.items() if value or name != "copy_number"} for item in answer["items"]
        ]

    with RootClient(find_root(root)) as client:
        pages = client.pages("memory_export", {"agent": agent, "user": user, "memory": memory, "limit": PAGE})
        count = export_lines(output, ((rows(page), page["total"] or 0) for page in pages))
    echo(f"exported {count_text(count, 'item')}" + ("" if output == "-" else f" to {output}"), err=True)
    for line in dict.fromkeys(map(problem_text, problems)):
        echo(f"not exported: {line}", fg="red", err=True)
    if problems:
        sys.exit(1)


@click.command("import", short_help="Import exported items; a repeated import changes nothing.")
@click.argument("source", metavar="FILE|-")
@click.option("--agent", metavar="NAME", help="The agent of all items.  [default: the agent in each line]")
@click.option("--memory", metavar="NAME", help="The memory to write to.  [default: the memory in each line]")
@GATES[0]
@GATES[1]
@click.option(
    "--evidence",
    metavar="NA",
    multiple=True,
    help="For records with gates: close evidence without files, with na:REASON.",
)
@root_option
@json_option
def import_(
    *,
    source: str,
    agent: str | None,
    memory: str | None,
    close_governance: str | None,
    tdd_proof: str | None,
    evidence: tuple[str, ...],
    root: Path | None,
    as_json: bool,
) -> None:
    """Import every line of FILE, or with `-` of standard input, as written by `symbi memory export`.

    Items that exist already are skipped. A line that cannot be imported is reported with its number and the others are
    imported; the exit code is then 1.
    """
    asked = {"agent": agent, "memory": memory, "gates": gates(close_governance, tdd_proof, evidence)}
    result = _ImportResult(source, quiet=as_json)
    with open_input(source) as file, RootClient(find_root(root)) as client, progress_bar("importing") as progress:
        size = os.fstat(file.fileno()).st_size if source != "-" else 0
        for batch in _batches(file, result.refuse):
            items = [result.with_new_ids(line.item) for line in batch]
            answer = client.call("memory_import", {**asked, "items": items}, progress=no_progress)
            result.stored += answer["stored"]
            result.there += answer["there"]
            for line, outcome in zip(batch, answer["lines"], strict=True):
                if outcome["outcome"] == "refused":
                    result.refuse(line.number, outcome["reason"])
                else:
                    result.take(line.item, outcome["memory_id"])
            progress("", batch[-1].read, size)
    if as_json:
        echo_json({"stored": result.stored, "there": result.there, "refused": result.refusals})
    else:
        refused = f", {len(result.refusals):,} refused" if result.refusals else ""
        there = f"{result.there:,} {'was' if result.there == 1 else 'were'} there already"
        echo(f"imported {count_text(result.stored, 'item')}; {there}{refused}")
    if result.refusals:
        sys.exit(1)


class _ImportResult:
    """The results of the lines. Refused lines are printed at once."""

    def __init__(self, source: str, *, quiet: bool) -> None:
        self.stored = 0
        self.there = 0
        self.refusals: list[dict[str, Any]] = []
        self._changed: dict[str, str] = {}
        """New ids by former ids, of items whose id changed."""
        self._source = "standard input" if source == "-" else source
        self._quiet = quiet

    def take(self, item: dict[str, Any], memory_id: str | None) -> None:
        """Record an imported item and its id."""
        own = item.get("memory_id")
        if memory_id is not None and isinstance(own, str) and own not in {"", memory_id}:
            self._changed[own] = memory_id

    def with_new_ids(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the item with the new ids of the items that it names."""
        if not self._changed:
            return item
        named: dict[str, Any] = {name: self._new(item[name]) for name in ("replaces", "retracts") if name in item}
        sources = item.get("source_memory_ids")
        if isinstance(sources, list):
            named["source_memory_ids"] = [self._new(each) for each in sources]
        return {**item, **named}

    def _new(self, memory_id: Any) -> Any:
        return self._changed.get(memory_id, memory_id) if isinstance(memory_id, str) else memory_id

    def refuse(self, number: int, reason: str) -> None:
        self.refusals.append({"line": number, "reason": reason})
        if not self._quiet:
            echo(f"{self._source}:{number}: {reason}", fg="red", err=True)


class _Line(NamedTuple):
    """An item, the number of its line, its bytes, and the number of bytes read from the file including it."""

    number: int
    item: dict[str, Any]
    size: int
    read: int


def _batches(file: BinaryIO, refuse: Callable[[int, str], None]) -> Iterator[list[_Line]]:
    """Yield the items of the file in batches; items that name other items come last, oldest first, because ids
    may change."""
    lines: list[_Line] = []
    later: list[_Line] = []

    def last() -> Iterator[_Line]:
        # Called when all are there.
        yield from sorted(later, key=lambda each: str(each.item.get("timestamp")))

    for each in chain(_items(file, refuse, later), last()):
        lines.append(each)
        if len(lines) == PAGE or sum(line.size for line in lines) > LARGEST_BATCH:
            yield lines
            lines = []
    if lines:
        yield lines


def _items(file: BinaryIO, refuse: Callable[[int, str], None], later: list[_Line]) -> Iterator[_Line]:
    """Yield the items of a file; items that name others are appended to `later`.

    A line that is not an item is refused; empty lines are skipped.
    """
    read = number = 0
    while raw := file.readline(LARGEST_LINE + 1):
        number += 1
        read += len(raw)
        if len(raw) > LARGEST_LINE:
            refuse(number, f"the line has more than {LARGEST_LINE:,} bytes")
            while raw and not raw.endswith(b"\n"):
                raw = file.readline(LARGEST_LINE)
                read += len(raw)
            continue
        try:
            item = _parse_line(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw)
        except ValueError as error:
            refuse(number, str(error))
            continue
        if item is None:
            continue
        found = _Line(number, item, len(raw), read)
        if any(item.get(name) for name in ("source_memory_ids", "replaces", "retracts")):
            later.append(found)
        else:
            yield found


def _parse_line(raw: bytes) -> dict[str, Any] | None:
    """Return the object on a line, None for an empty line. Raises ValueError with the reason."""
    if not raw.strip():
        return None
    try:
        value = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: invalid byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg.lower()} (column {error.colno})") from None
    except (ValueError, RecursionError):
        raise ValueError("it is not readable JSON: a number is too long, or it is nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value
