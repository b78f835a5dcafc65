"""`symbi agent pending`, `approve`, `deny` and `approvals`: a person decides about calls of agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from runtime.cli.terminal.approval import print_approval
from runtime.cli.terminal.screen import echo
from runtime.cli.tool_command import Rows, Sentence, tool_command


def _print_pending(answer: Mapping[str, Any]) -> None:
    if not answer["approvals"]:
        echo("There are no such calls.")
    for each in answer["approvals"]:
        print_approval(each)


def _print_approved(answer: Mapping[str, Any]) -> None:
    _DECIDED(answer)
    if answer.get("standing"):
        echo(f"{answer['agent']} calls {answer['tool']} without asking from now on", err=True)


_DECIDED = Sentence("{state} the call of {tool} by {agent}: {id}")

pending = tool_command(
    "approval_list",
    "pending",
    doc="""List the calls of AGENT, by default of all agents, that wait for a person, newest first, with all arguments.

    `symbi agent approve ID` and `symbi agent deny ID` decide. A call that nobody decides about is denied at its
    deadline, a day after it was asked about unless SYMBIONT_CONFIRM_TIMEOUT says otherwise.
    """,
    arguments={"agent": "[AGENT]"},
    options={"decided": "--all"},
    view=_print_pending,
)
approve = tool_command(
    "approval_approve",
    "approve",
    doc="""Approve the call ID: it runs exactly as `symbi agent pending` shows it. ID is an id, or its unique prefix.

    The agent goes on at once if a daemon runs, else when one is started.

    Of several decisions about a call only the first one counts; the exit code of the others is 1. So it is while the
    agent is not in the program, disabled, or without a model.
    """,
    arguments={"approval_id": "ID"},
    view=_print_approved,
)
deny = tool_command(
    "approval_deny",
    "deny",
    doc="""Deny the call ID: it does not run, and the agent goes on with the reason. ID is an id, or its unique prefix.

    Of several decisions about a call only the first one counts; the exit code of the others is 1.
    """,
    arguments={"approval_id": "ID"},
    view=_DECIDED,
)


@click.group(short_help="List and revoke tools that were approved for good.")
def approvals() -> None:
    """List and revoke what `symbi agent approve --always` has approved."""


def _decider(row: Mapping[str, Any]) -> str:
    return f"{row['decided_by']}, {row['decided_via']}" if row["decided_via"] else "nobody: the row was changed"


tool_command(
    "standing_approval_list",
    "list",
    arguments={"agent": "[AGENT]"},
    view=Rows(
        "standing",
        {"id": "id", "agent": "agent", "tool": "tool", "approved": "created_at", "by": _decider},
        empty="There are no standing approvals.",
    ),
    group=approvals,
)
tool_command(
    "standing_approval_revoke",
    "revoke",
    doc="Revoke the approval ID: the next call of its tool waits for a person again. ID is an id, or its unique "
    "prefix.",
    arguments={"standing_id": "ID"},
    view=Sentence("{agent} asks before it calls {tool} again"),
    group=approvals,
)
