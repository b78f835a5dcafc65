"""Output of hits, for both searches."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runtime.cli.terminal.passage import print_passage
from runtime.cli.terminal.screen import echo, joined, one_line, style

EXPLAIN = "Show how each part of the search contributed to each score, and the relevance of each hit."
"""The help of `--explain`."""

Hit = Callable[[int, Mapping[str, Any]], tuple[Sequence[str], Sequence[str], str]]
"""Returns the head, the location and the text of a hit by its rank."""


def print_hits(query: str, parts: Hit, answer: Mapping[str, Any], *, explain: bool = False) -> None:
    """Print the answer of a search. `query`: the name of the parameter with the query. `explain`: with the parts of the
    scores."""
    for rank, hit in enumerate(answer["hits"], 1):
        print_hit(*parts(rank, hit), answer[query], explained=hit if explain else None)
    if not answer["hits"]:
        echo("Nothing was found.")
    for note in answer["notes"]:
        echo(f"note: {note}", fg="yellow", err=not explain)


def print_hit(
    head: Sequence[str], where: Sequence[str], text: str, query: str, *, explained: Mapping[str, Any] | None = None
) -> None:
    """Print a hit: its head, its location, and the best passage. `explained`: the hit, to show the parts of its
    score."""
    _print_head(one_line("  ".join(head)), list(map(one_line, where)))
    if explained is not None:
        echo(f"    {_score_parts(explained)}", dim=True)
    print_passage(text, query)


def _score_parts(hit: Mapping[str, Any]) -> str:
    parts = " + ".join(f"{name} {value:.3f}" for name, value in hit["parts"].items()) or "nothing added to its score"
    cosine = "no vector" if hit["cosine"] is None else f"cosine {hit['cosine']:.3f}"
    return f"{parts}; relevance {hit['relevance']:.3f}: {cosine}, words {hit['keyword_share']:.3f}"


def _print_head(head: str, where: Sequence[str]) -> None:
    """Print head and location in one line; parts that do not fit go to the next line, so that an id can be copied."""
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    line, used = style(head, bold=True), len(head)
    for part in where:
        if used + 2 + len(part) > room:
            echo(line)
            line, used = joined(("    ", part)), 4 + len(part)
        else:
            line, used = joined((line, part), "  "), used + 2 + len(part)
    echo(line)
