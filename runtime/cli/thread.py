"""`symbi thread`: the threads of agents, with their messages and summaries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import RootClient, call, find_root
from runtime.cli.terminal.output import (
    confirm,
    counted,
    json_option,
    local_time,
    newest_option,
    one_line,
    print_json,
    print_table,
    printable,
    root_option,
    user_option,
)

PAGE = 500
"""Messages of one request of an export."""

_user_option = user_option("The threads of this user.")


@click.group()
def thread() -> None:
    """Show, export and delete the threads of agents.

    A thread is a conversation of one user with one agent: its main thread, one of a delivery, one of a subject (keyed),
    or one that was begun with `symbi chat --new`.
    """


@thread.command("list", short_help="List threads, the last used first.")
@click.argument("agent", required=False)
@click.option("--kind", metavar="KIND", help="Only threads of this kind: main, delivery, keyed or conversation.")
@newest_option()
@_user_option
@root_option
@json_option
def list_(agent: str | None, kind: str | None, limit: int, user: str | None, root: Path | None, as_json: bool) -> None:
    """List the threads of AGENT, by default of all agents, the last used first."""
    given = {"agent": agent, "kind": kind, "limit": limit, "user": user}
    answer = call(find_root(root), "threads.list", given)
    if as_json:
        print_json(answer)
        return
    columns = ("thread", "agent", "kind", "subject", "messages", "last used")
    print_table(columns, map(_row, answer["threads"]), empty="There are no threads.")
    if answer["cursor"] is not None:
        click.echo("there are more; --tail shows them", err=True)


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    about = one_line(row["subject"] or row["title"] or "-")
    return row["thread"], row["agent"], row["kind"], about, f"{row['messages']:,}", local_time(row["updated"])


@thread.command(short_help="Show the messages of a thread.")
@click.argument("thread_id", metavar="THREAD")
@newest_option(what=" messages")
@_user_option
@root_option
@json_option
def show(thread_id: str, limit: int, user: str | None, root: Path | None, as_json: bool) -> None:
    """Show the newest messages of THREAD, oldest first, after its newest summary."""
    given = {"thread": thread_id, "user": user}
    with RootClient(find_root(root)) as client:
        about = client.call("threads.show", given)
        found = client.call("threads.messages", {**given, "limit": limit})["messages"]
    if as_json:
        print_json({**about, "last_messages": found})
        return
    click.secho(
        printable(f"{about['kind']} thread of {about['agent']}, {counted(about['messages'], 'message')}"), bold=True
    )
    if about["summaries"]:
        newest = about["summaries"][-1]
        click.secho(f"\nsummary up to message {newest['last_position']}", bold=True)
        click.echo(printable(newest["text"]))
    for message in found:
        head = f"\n{message['position']}  {local_time(message['created'])}  {message['role']} {_kind(message)}"
        click.secho(head.rstrip(), bold=True)
        click.echo("\n".join(printable(line) for line in map(_part, message["parts"])))


def _kind(message: Mapping[str, Any]) -> str:
    return "" if message["kind"] == "message" else message["kind"].replace("_", " ")


def _part(part: Mapping[str, Any]) -> str:
    match part["type"]:
        case "tool_call":
            return f"{part['name']} {part['arguments']}"
        case "tool_output":
            return f"{part['name']}: {part['text']}"
        case "data":
            return f"{part['title']}\n{part['text']}"
    return str(part["text"])


@thread.command(short_help="Print a whole thread as lines of JSON.")
@click.argument("thread_id", metavar="THREAD")
@_user_option
@root_option
def export(thread_id: str, user: str | None, root: Path | None) -> None:
    """Print THREAD as lines of JSON: one object for the thread with its summaries, then one for each message."""
    given = {"thread": thread_id, "user": user}
    with RootClient(find_root(root)) as client:
        for line in _exported(client, given):
            click.echo(json.dumps(line, ensure_ascii=False))


def _exported(client: RootClient, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield client.call("threads.show", given)
    after = -1
    while found := client.call("threads.messages", {**given, "after": after, "limit": PAGE})["messages"]:
        yield from found
        after = found[-1]["position"]


@thread.command(short_help="Delete a thread with its messages.")
@click.argument("thread_id", metavar="THREAD")
@click.option("--force", is_flag=True, help="Also while an agent is at work in it, or a message waits for it.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_user_option
@root_option
@json_option
def delete(thread_id: str, force: bool, yes: bool, user: str | None, root: Path | None, as_json: bool) -> None:
    """Delete THREAD permanently, with its messages and summaries. What the agent remembered elsewhere stays."""
    given = {"thread": thread_id, "user": user}
    with RootClient(find_root(root)) as client:
        if not yes:
            about = client.call("threads.show", given)
            what = f"the {about['kind']} thread of {about['agent']} with {counted(about['messages'], 'message')}"
            confirm(f"Delete {what}?", undone="nothing was deleted")
        answer = client.call("threads.delete", {**given, "force": force})
    if as_json:
        print_json(answer)
    else:
        click.echo(f"deleted the thread with {counted(answer['messages'], 'message')}")
