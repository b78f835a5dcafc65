"""`symbi agent usage`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.limits import LIMITS, shown_amount
from runtime.cli.terminal.output import json_option, print_json, print_table, root_option


@click.command(short_help="Show what models used, and how much of the limits is left.")
@click.option(
    "--by",
    type=click.Choice(["agent", "model", "user", "day"]),
    default="agent",
    show_default=True,
    help="What a row counts.",
)
@click.option("--since", metavar="TIME", help="A duration before now (2h, 7d) or a date.  [default: today, UTC]")
@click.option("--agent", metavar="NAME", help="Only the calls of this agent.")
@click.option("--user", metavar="NAME", help="Only the calls for this user.  [default: all users]")
@root_option
@json_option
def usage(by: str, since: str | None, agent: str | None, user: str | None, root: Path | None, as_json: bool) -> None:
    """Show what the calls of models and embeddings used and cost, and how much of the limits of agents and users is
    used or reserved.

    Days are those of UTC; with `--by day` the last thirty are shown. Costs are US dollars: `-` if no price is known,
    with `+` if some are not. `--json` has the same as numbers.
    """
    answer = call(find_root(root), "agent_usage", {"by": by, "since": since, "agent": agent, "user": user})
    if as_json:
        print_json(answer)
        return
    rows = [*answer["rows"], answer["total"]] if answer["rows"] else []
    columns = (by, *(["service's model"] if by == "model" else []), "calls", "tokens in", "out", "cached", "cost")
    print_table(columns, (_row(row, by) for row in rows), empty="No model was called.")
    if answer["limits"]:
        click.echo()
        print_table(("limit of", "limit", "most", "used", "reserved", "share"), map(_limit, answer["limits"]), empty="")


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
    numbers = (shown_amount(limit, use[name]) for name in ("most", "used", "reserved"))
    return (whose, LIMITS[limit], *numbers, f"{use['share']:.0%}")
