"""`symbi memory search`, `list`, `show`, `inspect` and `stats`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from dslc.blocks.values.quantity import format_size
from runtime.cli.client import RootClient
from runtime.cli.items import kind_of, place_of, print_item, problem_text, user_name
from runtime.cli.terminal.hits import EXPLAIN, print_hits
from runtime.cli.terminal.output import beginning, local_time
from runtime.cli.terminal.progress import progress_bar
from runtime.cli.terminal.screen import echo, echo_exact, echo_markdown
from runtime.cli.tool_command import Cell, Rows, tool_command

_ALL_USERS = "Only items of this user.  [default: all users]"
_SHOWN_LETTERS = 200
_SHOWN_ID = 8
"""Characters of an id shown on a terminal; `show`, `edit` and `forget` accept this prefix."""
_BY_TIME = "7"
"""Version of ids that begin with a time (RFC 9562): ids created together share their beginning."""


def _parts(rank: int, hit: Mapping[str, Any]) -> tuple[list[str], list[str], str]:
    item = hit["item"]
    head = [f"{rank:>2}", f"{hit['score']:.3f}", local_time(item["timestamp"])[:16], kind_of(item)]
    head += [f"by {author}" for author in [item["provenance"]["author"]] if author]
    return head, [each for each in (_short(item["memory_id"]), place_of(hit)) if each], item["text"]


def _short(memory_id: str) -> str:
    """Return the beginning of an id for a terminal, the whole id for a program."""
    return memory_id if not sys.stdout.isatty() or memory_id[14:15] == _BY_TIME else memory_id[:_SHOWN_ID]


search = tool_command(
    "memory_search",
    "search",
    short="Search the memory of an agent by meaning and by words.",
    doc="""Search what AGENT remembers about QUERY, by meaning and by words at once; best hits first.

    Dates in the query ("last week", "in May 2023") are understood.
    """,
    arguments={"agent": "AGENT", "query": "QUERY"},
    options={"source": "--source-uri URI"},
    user=_ALL_USERS,
    progress=partial(progress_bar, "searching", at_once=False),
    views={"--explain": (EXPLAIN, partial(print_hits, "query", _parts, explain=True))},
    view=partial(print_hits, "query", _parts),
)


def _listed_kind(item: Mapping[str, Any]) -> str:
    """Return the type of a listed item, and whether it was replaced or withdrawn, or withdraws another."""
    if item["retracts"] is not None:
        return "retraction"
    state = "withdrawn" if item["retracted"] else "replaced" if item["replaced_by"] is not None else None
    return kind_of(item) if state is None else f"{kind_of(item)}, {state}"


list_ = tool_command(
    "memory_list",
    "list",
    short="List the latest items, newest first.",
    doc="List the latest items, newest first, of every agent or of one.",
    user=_ALL_USERS,
    view=Rows(
        "items",
        {
            "when": "timestamp",
            "agent": "agent_id",
            "type": _listed_kind,
            "text": lambda item: beginning(item["text"], _SHOWN_LETTERS),
            "id": "memory_id",
        },
        empty="There are no such items.",
    ),
)


def _print_with_location(answer: Mapping[str, Any]) -> None:
    print_item({**answer["item"], "user": answer["user"], "location": place_of(answer)})


def _details(client: RootClient, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"user": user_name(client, answer["item"]["user_id"])}


show = tool_command(
    "memory_show",
    "show",
    short="Show one item with all its fields.",
    doc="""Show the item ID of any agent, with all its fields and its location.

    ID may be shortened to a unique prefix.
    """,
    arguments={"memory_id": "ID"},
    details=_details,
    view=_print_with_location,
)


def _print_files(answer: Mapping[str, Any]) -> None:
    for part in ("memory", "log"):
        file = answer[part]
        echo(file["path"], dim=True, err=True)
        if file["text"] is None:
            none = "nothing yet" if part == "memory" else "no episodes on that day"
            echo(f"  ({none})", dim=True, err=True)
        elif sys.stdout.isatty():
            echo_markdown(file["text"])
        else:
            # The exact content, for other programs.
            echo_exact(file["text"], nl=not file["text"].endswith("\n"))


inspect = tool_command(
    "memory_inspect",
    "inspect",
    arguments={"agent": "AGENT"},
    options={"day": "--day YYYY-MM-DD"},
    view=_print_files,
)


def _print_stats(answer: Mapping[str, Any]) -> None:
    _STATS(answer)
    said = {problem_text(problem): None for row in answer["agents"] for problem in row["problems"]}
    more = [(state["memory"], line) for state in answer["memories"] for line in state["problems"]]
    for line in (*said, *(f"memory {name}: {line}" for name, line in more if line not in said)):
        echo(line, fg="yellow", err=True)


stats = tool_command(
    "memory_stats",
    "stats",
    arguments={"agent": "[AGENT]"},
    view=_print_stats,
)


def _count_cell(name: str) -> Cell:
    return lambda row: "?" if row[name] is None else row[name]


def _size(row: Mapping[str, Any]) -> str:
    return format_size(row["bytes"])


_STATS = Rows(
    "agents",
    {
        "agent": "agent",
        "memory": "memory",
        "items": _count_cell("items"),
        "by meaning": _count_cell("embedded"),
        "files": "files",
        "size": _size,
        "first day": "oldest",
        "last day": "newest",
    },
    empty="There are no items yet.",
)
