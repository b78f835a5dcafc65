"""`symbi agent runs`, `cancel` and `undo`: runs, and what they wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from runtime.cli.client import RootClient
from runtime.cli.terminal.output import count_text, print_table
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo
from runtime.cli.tool_command import Cell, Rows, tool_command


def _usage_cell(name: str) -> Cell:
    return lambda run: run["usage"][name] if run["usage"]["calls"] else None


runs = tool_command(
    "agent_runs",
    "runs",
    short="List the runs of agents.",
    doc="List the newest runs of AGENT, by default of all agents, newest first: what woke it, how it ended, and what "
    "its model used.",
    arguments={"agent": "[AGENT]"},
    user="The runs for this user.  [default: owner]",
    view=Rows(
        "runs",
        {
            "run": "run",
            "agent": "agent",
            "started": "started",
            "woken by": "trigger",
            "ended": lambda run: run["ended"] or run["state"],
            "tokens in": _usage_cell("tokens_in"),
            "out": _usage_cell("tokens_out"),
            "error": "error",
        },
        empty="There are no runs.",
    ),
)


def _print_cancelled(answer: Mapping[str, Any]) -> None:
    echo(f"the run {answer['run']} is {'being stopped' if answer['state'] == 'running' else 'cancelled'}")


cancel = tool_command(
    "agent_run_cancel",
    "cancel",
    doc="""Cancel RUN, which waits or is running, on whichever daemon. It needs a running daemon.

    What the run did so far stays.
    """,
    arguments={"run": "RUN"},
    options={"agent": None},
    user="The run is one for this user.  [default: owner]",
    view=_print_cancelled,
    daemon=True,
)


_ITEMS = {
    "deleted": "deleted",
    "retracted": "withdrawn by a retraction",
    "replaced": "left: replaced since by {}",
    "unchanged": "taken back before",
}
_BLOCKS = {
    "restored": "restored",
    "edited": "left: edited since",
    "too_old": "left: its text from before the run is not stored any more",
    "unchanged": "has its text from before the run already",
}
_CHANGED_OUTCOMES = ("deleted", "retracted", "restored")
_NOTHING = "nothing was changed"


def _ask_undo(client: RootClient, given: Mapping[str, Any], user: str | None) -> str | None:
    going = client.call("run_undo", {**given, "dry_run": True}, user=user, progress=no_progress)
    what = f"Take back what the run {given['run_id']} of {going['agent']} wrote ({_amount(going)})?"
    return what if going["changed"] else None


def _print_undone(answer: Mapping[str, Any]) -> None:
    rows = [*_memory_rows(answer), *map(_block_row, answer["blocks"])]
    if rows:
        print_table(("where", "what", "result"), rows, empty="")
    if not answer["changed"]:
        why = ": nothing that the run wrote is left to take back" if answer["complete"] else ""
        echo(f"{_NOTHING}{why}")
    for note in answer["notes"]:
        echo(note, fg="yellow", err=True)


def _amount(answer: Mapping[str, Any]) -> str:
    """Return how much would be taken back."""
    found = []
    for memory in answer["memories"]:
        count = sum(item["outcome"] in _CHANGED_OUTCOMES for item in memory["items"])
        if count:
            found.append(f"{count_text(count, 'item')} in the memory {memory['memory']}")
    blocks = [block["label"] for block in answer["blocks"] if block["outcome"] in _CHANGED_OUTCOMES]
    if blocks:
        found.append(f"the block{'' if len(blocks) == 1 else 's'} {', '.join(blocks)}")
    return " and ".join(found)


def _memory_rows(answer: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for memory in answer["memories"]:
        counts = Counter(_ITEMS[item["outcome"]].format(item["replaced_by"]) for item in memory["items"])
        for result, count in counts.items():
            yield f"memory {memory['memory']}", count_text(count, "item"), result


def _block_row(block: Mapping[str, Any]) -> tuple[str, ...]:
    whose = "" if block["subject"] is None else f" of {block['subject']}"
    return f"block {block['label']}{whose}", f"version {block['version']}", _BLOCKS[block["outcome"]]


undo = tool_command(
    "run_undo",
    "undo",
    short="Take back what a run wrote.",
    doc="""Take back what RUN wrote to memories and to blocks of core memory.

    Items are deleted, in records withdrawn by a retraction; what they had replaced is valid again. Blocks get their
    text from before the run. What was replaced or edited since is reported and left; the exit code is then 1.
    """,
    arguments={"run_id": "RUN"},
    options={"dry_run": None},
    user="The run is one for this user.  [default: owner]",
    question=_ask_undo,
    undone=_NOTHING,
    failed=lambda answer: not answer["complete"],
    view=_print_undone,
)
