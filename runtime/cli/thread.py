"""`symbi thread`: the threads of agents, with their messages and summaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.terminal.output import count_text, json_option, local_time, newest_option, root_option, user_option
from runtime.cli.terminal.screen import echo, echo_json, echo_text
from runtime.cli.tool_command import Rows, tool_command

PAGE: Final = 100
"""Items of one answer."""

_user_option = user_option("The threads of this user.")


@click.group()
def thread() -> None:
    """Show, export and delete the threads of agents.

    A thread is a conversation of one user with one agent: its main thread, one of a delivery, one of a subject (keyed),
    or one that was begun with `symbi chat --new`.
    """


_command = partial(tool_command, group=thread)


def _subject(row: Mapping[str, Any]) -> Any:
    return row["subject"] or row["title"]


_command(
    "agent_conversation_list",
    "list",
    short="List threads, the last used first.",
    doc="List the threads of AGENT, by default of all agents, the last used first.",
    arguments={"agent": "[AGENT]"},
    options={"subject": None},
    view=Rows(
        "conversations",
        {
            "thread": "conversation_id",
            "agent": "agent",
            "kind": "kind",
            "subject": _subject,
            "messages": "messages",
            "last used": "updated_at",
        },
        empty="There are no threads.",
    ),
)


@thread.command(short_help="Show the messages of a thread.")
@click.argument("thread_id", metavar="THREAD")
@newest_option(what=" messages")
@_user_option
@root_option
@json_option
def show(thread_id: str, limit: int, user: str | None, root: Path | None, as_json: bool) -> None:
    """Show the newest messages of THREAD, oldest first, after its newest summary."""
    with RootClient(find_root(root)) as client:
        about = client.call("agent_conversation_show", {"conversation_id": thread_id}, user=user)
        found = list(islice(_items(client, thread_id, user, "desc"), limit))[::-1]
    if as_json:
        echo_json({**about, "items": found})
        return
    echo(f"{about['kind']} thread of {about['agent']}, {count_text(about['messages'], 'message')}", bold=True)
    if about["summaries"]:
        newest = about["summaries"][-1]
        echo()
        echo(f"summary of {count_text(newest['messages'], 'message')}", bold=True)
        echo_text(newest["text"])
    for item in found:
        echo()
        kind = item["role"] if item["type"] == "message" else item["type"].replace("_", " ")
        echo(f"{local_time(item['created_at'])}  {kind}", bold=True)
        echo_text(_text(item))


def _text(item: Mapping[str, Any]) -> str:
    match item["type"]:
        case "function_call":
            return f"{item['name']} {item['arguments']}"
        case "function_call_output":
            return str(item["output"])
    return "\n".join(part["text"] for part in item["content"])


@thread.command(short_help="Print a whole thread as lines of JSON.")
@click.argument("thread_id", metavar="THREAD")
@_user_option
@root_option
def export(thread_id: str, user: str | None, root: Path | None) -> None:
    """Print THREAD as lines of JSON: one object for the thread with its summaries, then one for each message."""
    with RootClient(find_root(root)) as client:
        echo_json(client.call("agent_conversation_show", {"conversation_id": thread_id}, user=user), indent=None)
        for item in _items(client, thread_id, user, "asc"):
            echo_json(item, indent=None)


def _items(client: RootClient, thread_id: str, user: str | None, order: str) -> Iterator[dict[str, Any]]:
    """Yield the items of a thread."""
    given = {"conversation_id": thread_id, "order": order, "limit": PAGE}
    after = None
    while True:
        page = client.call("agent_conversation_items", {**given, "after": after}, user=user)
        yield from page["data"]
        after = page["last_id"]
        if not page["has_more"]:
            return


def _question(client: RootClient, given: Mapping[str, Any], _user: str | None) -> str:
    about = client.call("agent_conversation_show", given)
    what = f"the {about['kind']} thread of {about['agent']} with {count_text(about['messages'], 'message')}"
    return f"Delete {what}?"


_command(
    "agent_conversation_delete",
    "delete",
    short="Delete a thread with its messages.",
    doc="Delete THREAD permanently, with its messages and summaries. What the agent remembered elsewhere stays.",
    arguments={"conversation_id": "THREAD"},
    options={"agent": None},
    question=_question,
    view=lambda answer: echo(f"deleted the thread with {count_text(answer['messages'], 'message')}"),
)
