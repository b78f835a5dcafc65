"""`symbi memory compact`, `purge`, `reindex`, `verify` and `move`: maintenance of memories."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.items import problem_text
from runtime.cli.terminal.output import count_text, json_option, print_table, root_option
from runtime.cli.terminal.progress import no_progress, progress_bar
from runtime.cli.terminal.screen import echo, echo_json, style
from runtime.cli.tool_command import tool_command
from runtime.errors import SymbiontError, UsageError


@click.command(short_help="Copy long-term entries to the memory file, and delete old logs.")
@click.argument("agent", required=False)
@click.option("--all", "all_agents", is_flag=True, help="Compact the logs of every agent.")
@click.option("--memory", metavar="NAME", help="Only the memory called NAME in the program.")
@root_option
@json_option
def compact(agent: str | None, all_agents: bool, memory: str | None, root: Path | None, as_json: bool) -> None:
    """Copy the long-term entries of AGENT's logs to its memory file, and delete logs older than the retention.

    The daemon does this once a day. A repeated or interrupted compaction copies nothing twice.
    """
    if (agent is None) != all_agents:
        raise UsageError("give either AGENT or --all")
    with RootClient(find_root(root)) as client, progress_bar("compacting") as progress:
        wanted = [(agent, memory)] if agent is not None else _compactable_memories(client, memory)
        done = []
        for number, (name, where) in enumerate(wanted):
            progress(name or "", number, len(wanted))
            try:
                done.append(client.call("memory_compact", {"agent": name, "memory": where}, progress=no_progress))
            except SymbiontError as error:
                if agent is not None:
                    raise
                # An agent with unreadable files does not stop the others.
                done.append(_failed_compaction(name or "", where or "", error))
    if as_json:
        echo_json({"agents": done})
    else:
        _print_compacted(done)
    if any(each["problems"] for row in done for each in row["memories"]):
        sys.exit(1)


def _failed_compaction(agent: str, memory: str, error: SymbiontError) -> dict[str, Any]:
    problem = {"file": "", "message": error.line(), "severity": "error"}
    return {"agent": agent, "memories": [{"memory": memory, "flushed": 0, "deleted": 0, "problems": [problem]}]}


def _print_compacted(done: Sequence[Mapping[str, Any]]) -> None:
    for row in done:
        for each in row["memories"]:
            put, deleted = count_text(each["flushed"], "item"), f"{each['deleted']:,}"
            counts = f"{put} promoted; expired logs or entries deleted: {deleted}"
            echo(f"{row['agent']} in {each['memory']}: {counts}")
            for problem in each["problems"]:
                echo(f"not changed: {problem_text(problem)}", fg="red", err=True)
    if not done:
        echo("There is nothing to compact.")


def _compactable_memories(client: RootClient, memory: str | None) -> list[tuple[str, str]]:
    """Return every agent and memory whose store can be compacted; print those that cannot."""
    answer = client.call("memory_stats", {"memory": memory}, progress=no_progress)
    able = {state["memory"] for state in answer["memories"] if "compact" in state["capabilities"]}
    for state in answer["memories"]:
        if state["memory"] not in able:
            echo(f"the memory {state['memory']} is not compacted: its store is {state['store']}", err=True)
    return [(row["agent"], row["memory"]) for row in answer["agents"] if row["memory"] in able]


def _check_target(given: dict[str, Any]) -> Mapping[str, Any]:
    if given["agent"] is None and given["user"] is None:
        raise UsageError("give AGENT, --user or both")
    return given


def _target_text(answer: Mapping[str, Any]) -> str:
    agent, user = answer["agent"], answer["user"]
    return f"everything of {agent}" if user is None else f"everything of user {user}{f' in {agent}' if agent else ''}"


def _ask_purge(client: RootClient, given: Mapping[str, Any], _user: str | None) -> str | None:
    going = client.call("memory_purge", {**given, "dry_run": True}, progress=no_progress)["memories"]
    return f"Delete {_target_text(given)} ({_amount(going)})?" if going else None


def _print_purged(answer: Mapping[str, Any]) -> None:
    if answer["memories"]:
        echo(f"deleted {_target_text(answer)}: {_amount(answer['memories'])}")
    else:
        user = answer["user"]
        echo(f"{answer['agent']} has no items" if user is None else f"user {user} has no items there")
    for note in answer["notes"]:
        echo(note, fg="yellow", err=True)


def _amount(memories: Sequence[Mapping[str, Any]]) -> str:
    def one(each: Mapping[str, Any]) -> str:
        counts = [count_text(each["files"], "file")] if each["files"] or not each["items"] else []
        counts += [] if each["items"] is None else [count_text(each["items"], "item")]
        return f"{' with '.join(counts)} in the memory {each['memory']}"

    return " and ".join(map(one, memories))


purge = tool_command(
    "memory_purge",
    "purge",
    short="Delete everything of an agent or a user.",
    doc="""Delete everything that AGENT remembers, including logs, permanently. With --user delete only what is that
    user's.""",
    arguments={"agent": "[AGENT]"},
    options={"dry_run": None},
    user="Only items of this user; without AGENT, of every agent.",
    read=_check_target,
    question=_ask_purge,
    view=_print_purged,
)


def _print_reindexed(answer: Mapping[str, Any]) -> None:
    for row in answer["memories"]:
        counts = f"{count_text(row['items'], 'item')} of {count_text(row['parts'], 'part')}"
        echo(f"{row['memory']}: {counts} indexed, {row['embedded']:,} of them by meaning")
        for line in row["problems"]:
            echo(f"memory {row['memory']}: {line}", fg="red", err=True)


reindex = tool_command(
    "memory_reindex",
    "reindex",
    short="Rebuild the search index.",
    doc="""Rebuild the search index of every memory or of AGENT, including vectors.

    This is rarely needed: an index that is damaged, or was built with another embedding, is rebuilt automatically.
    """,
    arguments={"agent": "[AGENT]"},
    progress=partial(progress_bar, "indexing"),
    failed=lambda answer: any(row["problems"] for row in answer["memories"]),
    view=_print_reindexed,
)


def _print_verified(answer: Mapping[str, Any]) -> None:
    for row in answer["agents"]:
        wrong = any(problem["severity"] == "error" for problem in row["problems"])
        state = style("wrong", fg="red") if wrong else style("good", fg="green")
        counts = f"{count_text(row['files'], 'file')}, {count_text(row['items'], 'item')}"
        echo(state, f"  {row['agent']} in {row['memory']}: {counts}")
        for problem in row["problems"]:
            echo(f"    {problem_text(problem)}", fg="red" if problem["severity"] == "error" else "yellow")
    if not answer["agents"]:
        echo("Nothing is remembered yet.")


verify = tool_command(
    "memory_verify",
    "verify",
    short="Read everything, and report damaged items.",
    doc="""Read everything that all agents or AGENT remember, and check the checksums of records.

    Exit code 1 if something cannot be read or was changed after it was written.
    """,
    arguments={"agent": "[AGENT]"},
    progress=partial(progress_bar, "reading"),
    failed=lambda answer: not answer["good"],
    view=_print_verified,
)


def _print_moved(answer: Mapping[str, Any]) -> None:
    dry = answer["dry_run"]
    columns = ["agent", "items", "to copy" if dry else "copied", "there", "equal", "different"]
    columns += [] if dry else ["there now", "indexed", "by meaning"]
    rows = [tuple(_cells(each, dry=dry)) for each in answer["agents"]]
    print_table(columns, rows, empty=f"The memory {answer['source']} has no items.")
    for problem in (*answer["problems"], *(problem for each in answer["agents"] for problem in each["problems"])):
        echo(problem, fg="red", err=True)
    if dry:
        echo("Nothing was copied.")
    elif answer["good"] and rows:
        total = sum(each["items"] for each in answer["agents"])
        echo(f"{count_text(total, 'item')} of {answer['source']} and {answer['target']} compared: no differences.")
        echo(f"{answer['source']} did not change; `symbi memory purge AGENT --memory {answer['source']}` empties it.")


def _cells(each: Mapping[str, Any], *, dry: bool) -> Iterator[str]:
    yield each["agent"] if each["agent"] == each["to"] else f"{each['agent']} → {each['to']}"
    for name in ("items", "copied", "there", "equal", "different"):
        yield f"{each[name]:,}"
    for name in () if dry else ("items_there", "indexed", "embedded"):
        yield "-" if each[name] is None else f"{each[name]:,}"


move = tool_command(
    "memory_move",
    "move",
    short="Copy a memory into another, and verify the copy.",
    doc="""Copy all items of the memory FROM into the memory TO, a collection with its own index.

    Items keep their IDs, times and other fields. The same command resumes an interrupted copy, without duplicates. Then
    the index of TO is updated, and both memories are compared by counts and hashes: a difference is reported and the
    exit code is 1. FROM does not change.
    """,
    arguments={"source": "FROM", "target": "TO"},
    progress=partial(progress_bar, "moving"),
    failed=lambda answer: not answer["good"],
    view=_print_moved,
)
