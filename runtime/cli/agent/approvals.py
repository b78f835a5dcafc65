"""`symbi agent pending`, `approve`, `deny` and `approvals`: a person decides about calls of agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.approval import print_approval
from runtime.cli.terminal.output import (
    json_option,
    local_time,
    newest_option,
    print_json,
    print_table,
    root_option,
    user_option,
)


@click.command(short_help="List calls that wait for approval.")
@click.argument("agent", required=False)
@click.option("--all", "decided", is_flag=True, help="Also the calls that are decided.")
@newest_option(200)
@user_option("The calls for this user.")
@root_option
@json_option
def pending(agent: str | None, decided: bool, limit: int, user: str | None, root: Path | None, as_json: bool) -> None:
    """List the calls of AGENT, by default of all agents, that wait for a person, newest first, with all arguments.

    `symbi agent approve ID` and `symbi agent deny ID` decide. A call that nobody decides about is denied at its
    deadline, a day after it was asked about unless SYMBIONT_CONFIRM_SECONDS says otherwise.
    """
    given = {"agent": agent, "decided": decided, "limit": limit, "user": user}
    answer = call(find_root(root), "approval_list", given)
    if as_json:
        print_json(answer)
        return
    if not answer["approvals"]:
        click.echo("No call waits for approval." if not decided else "There are no approvals.")
    for each in answer["approvals"]:
        print_approval(each)


@click.command(short_help="Approve a call.")
@click.argument("approval_id", metavar="ID")
@click.option("--always", is_flag=True, help="The agent may call this tool for this user from now on without asking.")
@root_option
@json_option
def approve(approval_id: str, always: bool, root: Path | None, as_json: bool) -> None:
    """Approve the call ID: it runs exactly as `symbi agent pending` shows it. ID is an id, or its unique prefix.

    The agent goes on at once if a daemon runs, else when one is started.

    Of several decisions about a call only the first one counts; the exit code of the others is 1. So it is while the
    agent is not in the program, disabled, or without a model.
    """
    answer = call(find_root(root), "approval_approve", {"approval_id": approval_id, "always": always})
    _print_decided(answer, as_json=as_json)
    if always and not as_json:
        click.echo(f"{answer['agent']} calls {answer['tool']} without asking from now on", err=True)


@click.command(short_help="Deny a call.")
@click.argument("approval_id", metavar="ID")
@click.option("--reason", metavar="TEXT", help="Why; the agent reads it.")
@root_option
@json_option
def deny(approval_id: str, reason: str | None, root: Path | None, as_json: bool) -> None:
    """Deny the call ID: it does not run, and the agent goes on with the reason. ID is an id, or its unique prefix.

    Of several decisions about a call only the first one counts; the exit code of the others is 1.
    """
    _print_decided(
        call(find_root(root), "approval_deny", {"approval_id": approval_id, "reason": reason}), as_json=as_json
    )


def _print_decided(answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        click.echo(f"{answer['state']} the call of {answer['tool']} by {answer['agent']}: {answer['id']}")


@click.group(short_help="List and revoke tools that were approved for good.")
def approvals() -> None:
    """List and revoke what `symbi agent approve --always` has approved."""


@approvals.command("list", short_help="List tools that agents call without asking.")
@click.argument("agent", required=False)
@user_option("The approvals of this user.")
@root_option
@json_option
def list_(agent: str | None, user: str | None, root: Path | None, as_json: bool) -> None:
    """List the tools that AGENT, by default each agent, may call without asking, though they need approval."""
    answer = call(find_root(root), "standing_approval_list", {"agent": agent, "user": user})
    if as_json:
        print_json(answer)
        return
    rows = [
        (each["id"], each["agent"], each["tool"], local_time(each["created_at"]), each["decided_by"])
        for each in answer["standing"]
    ]
    columns = ("id", "agent", "tool", "approved", "by")
    print_table(columns, rows, empty="Each call that needs approval is asked about.")


@approvals.command(short_help="Ask about a tool again.")
@click.argument("standing_id", metavar="ID")
@root_option
@json_option
def revoke(standing_id: str, root: Path | None, as_json: bool) -> None:
    """Revoke the approval ID: the next call of its tool waits for a person again. ID is an id, or its unique prefix."""
    answer = call(find_root(root), "standing_approval_revoke", {"standing_id": standing_id})
    if as_json:
        print_json(answer)
    else:
        click.echo(f"{answer['agent']} asks before it calls {answer['tool']} again")
