"""`symbi agent usage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.cli.terminal.limits import LIMITS, amount_text
from runtime.cli.terminal.output import print_table
from runtime.cli.terminal.screen import echo
from runtime.cli.tool_command import tool_command


def _print(answer: Mapping[str, Any]) -> None:
    rows, by = [*answer["rows"], answer["total"]] if answer["rows"] else [], answer["by"]
    columns = (by, *(["service's model"] if by == "model" else []), "calls", "tokens in", "out", "cached", "cost")
    print_table(columns, (_row(row, by) for row in rows), empty="No model was called.")
    if answer["limits"]:
        echo()
        print_table(("limit of", "limit", "most", "used", "reserved", "share"), map(_limit, answer["limits"]), empty="")


usage = tool_command(
    "agent_usage",
    "usage",
    short="Show what models used, and how much of the limits is left.",
    doc="""Show what the calls of models and embeddings used and cost, and how much of the limits of agents and users is
    used or reserved.

    Days are those of UTC; with `--by day` the last thirty are shown. Costs are US dollars: `-` if no price is known,
    with `+` if some are not. `--json` has the same as numbers.
    """,
    user="Only the calls for this user.  [default: all users]",
    view=_print,
)


def _row(row: Mapping[str, Any], by: str) -> tuple[str, ...]:
    counts = (f"{row[name]:,}" for name in ("calls", "tokens_in", "tokens_out", "cached"))
    service = (row["service_model"] or "",) if by == "model" else ()
    return (row["name"], *service, *counts, _cost(row))


def _cost(row: Mapping[str, Any]) -> str:
    """Return a cost in dollars; `-` if no price is known, with `+` if not all are."""
    answered = row["calls"] - row["unanswered"]
    if answered and row["unpriced"] == answered:
        return "-"
    return f"${row['cost']:,.4f}{'+' if row['unpriced'] else ''}"


def _limit(use: Mapping[str, Any]) -> tuple[str, ...]:
    whose = f"agent {use['agent']}" if use["agent"] else f"user {use['user']}"
    limit = use["limit"]
    numbers = (amount_text(limit, use[name]) for name in ("most", "used", "reserved"))
    return (whose, LIMITS.get(limit, f"bytes of {limit}"), *numbers, f"{use['share']:.0%}")
