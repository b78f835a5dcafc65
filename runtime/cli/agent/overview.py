"""`symbi agent list`, `show` and `context`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.cli.terminal.context_parts import print_parts
from runtime.cli.terminal.limits import LIMITS, amount_text
from runtime.cli.terminal.output import local_time
from runtime.cli.terminal.screen import echo, echo_text, rule
from runtime.cli.tool_command import Cell, Fields, Rows, tool_command

RECORDER = "none (records)"


def _remarks(row: Mapping[str, Any]) -> str:
    remarks = [*(["main"] if row["main"] else []), *([] if row["enabled"] else ["disabled"])]
    return f"{row['agent']} ({', '.join(remarks)})" if remarks else str(row["agent"])


def _last_run_cell(name: str) -> Cell:
    return lambda row: row["last_run"] and row["last_run"][name]


list_ = tool_command(
    "agent_list",
    "list",
    view=Rows(
        "agents",
        {
            "agent": _remarks,
            "model": lambda row: row["model"] or RECORDER,
            "memory": "memory",
            "thread": lambda row: row["thread"] if row["model"] else None,
            "last run": _last_run_cell("started_at"),
            "ended": _last_run_cell("state"),
        },
        empty="There are no agents.",
    ),
)


def _model_cell(value: Cell) -> Cell:
    """Return a cell that recorders do not have."""

    def cell(row: Mapping[str, Any]) -> Any:
        return None if row["model"] is None else row[value] if isinstance(value, str) else value(row)

    return cell


def _limits(row: Mapping[str, Any]) -> str:
    limits = row["limits"]
    amounts = [f"{amount_text(name, limits[name])} {what}" for name, what in LIMITS.items() if name in limits]
    return ", ".join([*amounts, *([f"at a limit: {limits['at_limit']}"] if "at_limit" in limits else [])])


def _last_run(row: Mapping[str, Any]) -> str:
    run = row["last_run"]
    return "none" if run is None else f"{local_time(run['started'])} {run['ended'] or run['state']}"


show = tool_command(
    "agent_show",
    "show",
    short="Show the settings of an agent.",
    doc="Show the settings of AGENT, and its last run.",
    arguments={"agent": "AGENT"},
    user="Show the last run for this user.  [default: owner]",
    view=Fields(
        {
            "agent": _remarks,
            "declared": lambda row: row["declared"] or "no: it only records",
            "model": lambda row: row["model"] or RECORDER,
            "memory": lambda row: row["memory"] or "the default",
            "thread": _model_cell("thread"),
            "tools": _model_cell(lambda row: ", ".join(row["tools"]) or "memory tools"),
            "asks before": _model_cell(lambda row: ", ".join(row["confirm"])),
            "tool calling": _model_cell("tool_calling"),
            "steps": _model_cell(lambda row: f"at most {row['max_steps']:,}"),
            "context": _model_cell(lambda row: f"at most {row['max_tokens']:,} tokens"),
            "summarizer": _model_cell(lambda row: row["summarizer"] or "its model"),
            "blocks": _model_cell(lambda row: ", ".join(dict.fromkeys(("persona", "human", *row["blocks"])))),
            "limits": _model_cell(_limits),
            "locked": _model_cell(lambda row: ", ".join(row["lock"])),
            "last run": _last_run,
        },
        text="instruction",
    ),
)


def _print_text(answer: Mapping[str, Any]) -> None:
    for message in answer["messages"]:
        echo(f"{rule(2)} {message['role']}", bold=True)
        echo_text(message["content"])


context = tool_command(
    "agent_context_preview",
    "context",
    short="Show what the context of an agent is made of.",
    doc="""Show the parts of the context with which AGENT would answer now, and how many tokens each has.

    No model is asked. The tokens are counted as they are for the model's window.
    """,
    arguments={"agent": "[AGENT]"},
    options={"thread": "--thread ID"},
    user="For this user.  [default: owner]",
    views={"--text": ("Print the whole text that the model would read.", _print_text)},
    view=print_parts,
)
