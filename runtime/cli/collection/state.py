"""`symbi collection list`, `new` and `metrics`: the collections and their sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runtime.cli.terminal.output import count_text, print_table
from runtime.cli.terminal.screen import echo
from runtime.cli.tool_command import Rows, tool_command

_TAGS = 8
"""Maximum number of tags that are named."""


def _embedding(each: Mapping[str, Any]) -> str:
    if each["embedding"] is None:
        return "by keyword only"
    size = f", {each['dimension']}" if each["dimension"] else ""
    return f"{each['embedding']} ({each['model']}{size})" if each["model"] else str(each["embedding"])


list_ = tool_command(
    "get-collections",
    "list",
    options={"collection": None},
    view=Rows(
        "collections",
        {
            "collection": lambda row: f"{row['name']} (default)" if row["default"] else row["name"],
            "memory": "memory",
            "items": "items",
            "index": "index",
            "embedding": _embedding,
            "state": "state",
        },
        empty="There are no collections.",
    ),
)


def _print_new(answer: Mapping[str, Any]) -> None:
    done = "created" if answer["created"] else "exists already:"
    echo(f"{done} the collection {answer['name']} in the memory {answer['memory']}")
    for note in answer["notes"]:
        echo(f"note: {note}", fg="yellow", err=True)


new = tool_command(
    "new-collection",
    "new",
    arguments={"name": "NAME"},
    view=_print_new,
)


def _print_metrics(answer: Mapping[str, Any]) -> None:
    for each in answer["collections"]:
        echo(f"{each['name']} in the memory {each['memory']}", bold=True)
        for line in _counts(each):
            echo(f"    {line}")
    rows = [(name, f"{each['calls']:,}", f"{each['failures']:,}") for name, each in sorted(answer["tools"].items())]
    if rows:
        echo()
        print_table(("tool", "calls", "failures"), rows, empty="")


metrics = tool_command(
    "metrics",
    short="Count items and tool calls.",
    doc="""Count the items of each collection, or of one: by type, project and tag, and those without a vector yet.

    Also shows how often you called each tool since the daemon started. Without a daemon there is no such count.
    """,
    view=_print_metrics,
)


def _counts(each: Mapping[str, Any]) -> Iterator[str]:
    by_type = ", ".join(f"{name} {count:,}" for name, count in each["by_type"].items() if count)
    yield count_text(each["items"], "item") + (f": {by_type}" if by_type else "")
    if each["embedded"] is not None:
        waiting = f", {each['waiting']:,} without a vector yet" if each["waiting"] else ""
        yield f"searchable by meaning: {each['embedded']:,}{waiting}"
    for what in ("projects", "tags"):
        named = [f"{name} {count:,}" for name, count in each[what].items()]
        if named:
            more = f", and {len(named) - _TAGS} more" if len(named) > _TAGS else ""
            yield f"{what}: {', '.join(named[:_TAGS])}{more}"
    for problem in ("index_problem", "embedding_problem"):
        if each[problem]:
            yield str(each[problem])
