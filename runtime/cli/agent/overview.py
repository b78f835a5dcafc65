"""`symbi agent list` and `symbi agent show`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.limits import LIMITS, shown_amount
from runtime.cli.terminal.output import (
    json_option,
    local_time,
    print_json,
    print_table,
    printable,
    root_option,
    user_option,
)

RECORDER = "none (records)"


@click.command("list", short_help="List the agents of the program.")
@user_option("Show the last runs for this user.")
@root_option
@json_option
def list_(user: str | None, root: Path | None, as_json: bool) -> None:
    """List the agents of the program, with their models and last runs."""
    answer = call(find_root(root), "agents.list", {"user": user})
    if as_json:
        print_json(answer)
        return
    columns = ("agent", "model", "memory", "thread", "last run", "ended")
    rows = [
        (
            f"{row['agent']}{_remarks(row)}",
            row["model"] or RECORDER,
            row["memory"] or "-",
            row["thread"] if row["model"] else "-",
            *_last(row["last_run"]),
        )
        for row in answer["agents"]
    ]
    print_table(columns, rows, empty="There are no agents.")


@click.command(short_help="Show the settings of an agent.")
@click.argument("agent")
@user_option("Show the last run for this user.")
@root_option
@json_option
def show(agent: str, user: str | None, root: Path | None, as_json: bool) -> None:
    """Show the settings of AGENT, and its last run."""
    answer = call(find_root(root), "agents.show", {"agent": agent, "user": user})
    if as_json:
        print_json(answer)
        return
    when, ended = _last(answer["last_run"])
    lines = {
        "agent": f"{answer['agent']}{_remarks(answer)}",
        "declared": answer["declared"] or "no: it only records",
        "model": answer["model"] or RECORDER,
        "memory": answer["memory"] or "the default",
    }
    if answer["model"]:
        lines |= {
            "thread": answer["thread"],
            "tools": ", ".join(answer["tools"]) or "memory tools",
            **({"asks before": ", ".join(answer["confirm"])} if answer["confirm"] else {}),
            "tool calling": answer["tool_calling"],
            "steps": f"at most {answer['max_steps']:,}",
            "context": f"at most {answer['max_tokens']:,} tokens",
            "summarizer": answer["summarizer"] or "its model",
            "blocks": ", ".join(dict.fromkeys(("persona", "human", *answer["blocks"]))),
        }
        given = {"limits": _limits(answer["limits"]), "locked": ", ".join(answer["lock"])}
        lines |= {name: text for name, text in given.items() if text}
    lines |= {"last run": f"{when} {ended}".strip() if answer["last_run"] else "none"}
    for name, value in lines.items():
        click.echo(f"{click.style(name.ljust(12), bold=True)}  {printable(value)}")
    if answer["instruction"]:
        click.echo(f"\n{printable(answer['instruction'].strip())}")


def _limits(limits: Mapping[str, Any]) -> str:
    amounts = [f"{shown_amount(name, limits[name])} {what}" for name, what in LIMITS.items() if name in limits]
    return ", ".join([*amounts, *([f"at a limit: {limits['at_limit']}"] if "at_limit" in limits else [])])


def _remarks(row: Mapping[str, Any]) -> str:
    remarks = [*(["main"] if row["main"] else []), *([] if row["enabled"] else ["disabled"])]
    return f" ({', '.join(remarks)})" if remarks else ""


def _last(run: Mapping[str, Any] | None) -> tuple[str, str]:
    return ("-", "-") if run is None else (local_time(run["started"]), run["ended"] or run["state"])
