"""`symbi memory compact`, `purge`, `reindex` and `verify`: maintenance of memories."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import RootClient, call, find_root
from runtime.cli.memory.item_output import problem_text
from runtime.cli.memory.options import memory_option
from runtime.cli.terminal.output import confirm, counted, json_option, root_option
from runtime.cli.terminal.progress import no_progress, progress_bar
from runtime.cli.terminal.screen import echo, echo_json, style
from runtime.errors import SymbiontError, UsageError


@click.command(short_help="Copy long-term entries to the memory file, and delete old logs.")
@click.argument("agent", required=False)
@click.option("--all", "all_agents", is_flag=True, help="Compact the logs of every agent.")
@memory_option
@root_option
@json_option
def compact(agent: str | None, all_agents: bool, memory: str | None, root: Path | None, as_json: bool) -> None:
    """Copy the long-term entries of AGENT's logs to its memory file, and delete logs older than the retention.

    The daemon does this once a day. A repeated or interrupted compaction copies nothing twice.
    """
    if (agent is None) != all_agents:
        raise UsageError("give either AGENT or --all")
    with RootClient(find_root(root)) as client, progress_bar("compacting") as progress:
        wanted = [(agent, memory)] if agent is not None else _compactable(client, memory)
        done = []
        for number, (name, where) in enumerate(wanted):
            progress(name or "", number, len(wanted))
            try:
                done.append(client.call("memory_compact", {"agent": name, "memory": where}, progress=no_progress))
            except SymbiontError as error:
                if agent is not None:
                    raise
                # An agent with unreadable files does not stop the others.
                done.append(_failed(name or "", where or "", error))
    if as_json:
        echo_json({"agents": done})
    else:
        _print_compacted(done)
    if any(each["problems"] for row in done for each in row["memories"]):
        sys.exit(1)


def _failed(agent: str, memory: str, error: SymbiontError) -> dict[str, Any]:
    problem = {"file": "", "message": error.line(), "severity": "error"}
    return {"agent": agent, "memories": [{"memory": memory, "flushed": 0, "deleted": 0, "problems": [problem]}]}


def _print_compacted(done: Sequence[Mapping[str, Any]]) -> None:
    for row in done:
        for each in row["memories"]:
            put, deleted = counted(each["flushed"], "item"), f"{each['deleted']:,}"
            counts = f"{put} promoted; expired logs or entries deleted: {deleted}"
            echo(f"{row['agent']} in {each['memory']}: {counts}")
            for problem in each["problems"]:
                echo(f"not changed: {problem_text(problem)}", fg="red", err=True)
    if not done:
        echo("There is nothing to compact.")


def _compactable(client: RootClient, memory: str | None) -> list[tuple[str, str]]:
    """Return every agent and memory whose store can be compacted; print those that cannot."""
    answer = client.call("memory_stats", {"memory": memory}, progress=no_progress)
    able = {state["memory"] for state in answer["memories"] if "compact" in state["capabilities"]}
    for state in answer["memories"]:
        if state["memory"] not in able:
            echo(f"the memory {state['memory']} is not compacted: its store is {state['store']}", err=True)
    return [(row["agent"], row["memory"]) for row in answer["agents"] if row["memory"] in able]


@click.command(short_help="Delete everything of an agent or a user.")
@click.argument("agent", required=False)
@click.option("--user", metavar="NAME", help="Only items of this user; without AGENT, of every agent.")
@memory_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@root_option
@json_option
def purge(agent: str | None, user: str | None, memory: str | None, yes: bool, root: Path | None, as_json: bool) -> None:
    """Delete everything that AGENT remembers, including logs, permanently. With --user delete only what is that
    user's."""
    if agent is None and user is None:
        raise UsageError("give AGENT, --user or both")
    asked = {"agent": agent, "user": user, "memory": memory}
    what = f"everything of {agent}" if user is None else f"everything of user {user}{f' in {agent}' if agent else ''}"
    with RootClient(find_root(root)) as client:
        going = client.call("memory_purge", {**asked, "dry_run": True}, progress=no_progress)["memories"]
        if going and not yes:
            confirm(f"Delete {what} ({_amount(going)})?", undone="nothing was deleted")
        answer = client.call("memory_purge", asked, progress=no_progress)
    if as_json:
        echo_json(answer)
    elif answer["memories"]:
        echo(f"deleted {what}: {_amount(answer['memories'])}")
    else:
        echo(f"{agent} has no items" if user is None else f"user {user} has no items there")
    for note in answer["notes"]:
        echo(note, fg="yellow", err=True)


def _amount(memories: Sequence[Mapping[str, Any]]) -> str:
    def one(each: Mapping[str, Any]) -> str:
        counts = [counted(each["files"], "file")] if each["files"] or not each["items"] else []
        counts += [] if each["items"] is None else [counted(each["items"], "item")]
        return f"{' with '.join(counts)} in the memory {each['memory']}"

    return " and ".join(map(one, memories))


@click.command(short_help="Rebuild the search index.")
@click.argument("agent", required=False)
@memory_option
@root_option
@json_option
def reindex(agent: str | None, memory: str | None, root: Path | None, as_json: bool) -> None:
    """Rebuild the search index of every memory or of AGENT, including vectors.

    This is rarely needed: an index that is damaged, or was built with another embedding, is rebuilt automatically.
    """
    with progress_bar("indexing") as progress:
        answer = call(find_root(root), "memory_reindex", {"agent": agent, "memory": memory}, progress=progress)
    problems = [(row["memory"], line) for row in answer["memories"] for line in row["problems"]]
    if as_json:
        echo_json(answer)
    else:
        for row in answer["memories"]:
            counts = f"{counted(row['items'], 'item')} of {counted(row['parts'], 'part')}"
            echo(f"{row['memory']}: {counts} indexed, {row['embedded']:,} of them by meaning")
    for name, line in problems:
        echo(f"memory {name}: {line}", fg="red", err=True)
    if problems:
        sys.exit(1)


@click.command(short_help="Read everything, and report damaged items.")
@click.argument("agent", required=False)
@memory_option
@root_option
@json_option
def verify(agent: str | None, memory: str | None, root: Path | None, as_json: bool) -> None:
    """Read everything that all agents or AGENT remember, and check the checksums of records.

    Exit code 1 if something cannot be read or was changed after it was written.
    """
    with progress_bar("reading") as progress:
        answer = call(find_root(root), "memory_verify", {"agent": agent, "memory": memory}, progress=progress)
    if as_json:
        echo_json(answer)
    else:
        for row in answer["agents"]:
            _print_verified(row)
        if not answer["agents"]:
            echo("Nothing is remembered yet.")
    if not answer["good"]:
        sys.exit(1)


def _print_verified(row: Mapping[str, Any]) -> None:
    wrong = [problem for problem in row["problems"] if problem["severity"] == "error"]
    state = style("wrong", fg="red") if wrong else style("good", fg="green")
    counts = f"{counted(row['files'], 'file')}, {counted(row['items'], 'item')}"
    echo(state, f"  {row['agent']} in {row['memory']}: {counts}")
    for problem in row["problems"]:
        colour = "red" if problem["severity"] == "error" else "yellow"
        echo(f"    {problem_text(problem)}", fg=colour)
