"""`symbi collection search` and `summarize`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from runtime.cli.terminal.hits import EXPLAIN, print_hits
from runtime.cli.terminal.output import count_text, local_time, with_zone
from runtime.cli.terminal.progress import progress_bar
from runtime.cli.terminal.screen import echo, echo_text
from runtime.cli.tool_command import tool_command

_SINCE = "a duration before now, or a local date and time."


def _time_range(given: dict[str, Any]) -> dict[str, str] | None:
    """Return `--since` and `--until` in RFC 3339, as tools accept them; None if neither is given. Raises UsageError."""
    ends = {"start": _moment(given.pop("since"), "--since"), "end": _moment(given.pop("until"), "--until")}
    return {name: text for name, text in ends.items() if text is not None} or None


def _moment(text: str | None, option: str) -> str | None:
    if text is None:
        return None
    from runtime.clock import SYSTEM
    from runtime.memory.item import rfc3339
    from runtime.tools.time_input import read_moment

    return rfc3339(read_moment(with_zone(text) or text, option, SYSTEM))


def _parts(rank: int, hit: Mapping[str, Any]) -> tuple[list[str], list[str], str]:
    head = [f"{rank:>2}", f"{hit['score']:.3f}", local_time(hit["timestamp"])[:16], hit["memory_type"]]
    head += [f"#{tag}" for tag in hit["tags"]]
    return head, [*filter(None, [hit["source_uri"]]), hit["memory_id"]], hit["text"]


def _print_context(answer: Mapping[str, Any]) -> None:
    echo_text(answer["context"])
    for note in answer["notes"]:
        echo(f"note: {note}", fg="yellow", err=True)


search = tool_command(
    "search",
    short="Search a collection by meaning and by words.",
    doc="Search the collection for QUERY, or with `-` for the text on standard input, by meaning and by words at once.",
    arguments={"query_text": "QUERY|-"},
    options={"time_range": None},
    more_options=[
        click.option("--since", metavar="7d|DATE", help=f"Only items from this time on: {_SINCE}"),
        click.option("--until", metavar="7d|DATE", help="Only items from before this time."),
    ],
    read=lambda given: {"time_range": _time_range(given), **given},
    progress=partial(progress_bar, "searching", at_once=False),
    views={
        "--context": ("Print the hits as numbered lines for a prompt.", _print_context),
        "--explain": (EXPLAIN, partial(print_hits, "query_text", _parts, explain=True)),
    },
    view=partial(print_hits, "query_text", _parts),
)


def _period(given: dict[str, Any]) -> Mapping[str, Any]:
    from runtime.memory.item import rfc3339

    within = _time_range(given) or {}
    return {**given, "time_range": {"end": rfc3339(datetime.now(UTC)), **within}}


def _print_summary(answer: Mapping[str, Any]) -> None:
    echo_text(answer["summary"])
    by = " by ".join(str(each) for each in (answer["strategy"], answer.get("model")) if each)
    echo(f"summary of {count_text(len(answer['source_memory_ids']), 'item')} ({by}), stored as", err=True)
    echo(answer["upserted_memory_id"], err=True)
    for note in answer.get("notes", ()):
        echo(f"note: {note}", fg="yellow", err=True)


summarize = tool_command(
    "summarize",
    short="Summarize the items of a period, and store the summary.",
    doc="""Summarize the episodic items of a period in one semantic item, and store it in the same collection.

    A repeated call for the same period and items prints the stored summary. With a relative period, such as 7d, each
    call is for a new period.
    """,
    options={"time_range": None, "score_threshold": None},
    more_options=[
        click.option("--since", metavar="7d|DATE", required=True, help=f"Start of the period: {_SINCE}"),
        click.option("--until", metavar="7d|DATE", help="End of the period.  [default: now]"),
    ],
    read=_period,
    progress=partial(progress_bar, "summarizing"),
    view=_print_summary,
)
