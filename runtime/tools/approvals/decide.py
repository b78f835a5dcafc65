"""The tools by which persons look at the calls that wait for them, and decide. Agents have none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
import structlog
from pydantic import Field

from runtime.clock import milliseconds
from runtime.errors import Conflict
from runtime.identity import users
from runtime.identity.caller import Surface
from runtime.threads.approvals.approval import APPROVED, AWAITING, DENIED, Approval, Via
from runtime.threads.approvals.standing import StandingApproval
from runtime.threads.approvals.store import Approvals
from runtime.tools.agent.access import absence, check_agent
from runtime.tools.agent.types import User
from runtime.tools.context import Context
from runtime.tools.memory.access import asked_user, user_filter
from runtime.tools.patterns import AGENT, EXAMPLE_ID
from runtime.tools.result import Result, UnixTime
from runtime.tools.tool import tool

State = Literal["awaiting", "approved", "denied", "expired", "cancelled"]

ApprovalId = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f-]{1,36}$",
        description="The id of the approval, or the beginning of it that no other one has.",
        examples=[EXAMPLE_ID],
    ),
]
StandingId = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f-]{1,36}$",
        description="The id of the standing approval, or the beginning of it that no other one has.",
        examples=[EXAMPLE_ID],
    ),
]
AgentFilter = Annotated[
    Annotated[str, Field(pattern=AGENT)] | None, Field(description="Only those of this agent; the default is all.")
]
Decided = Annotated[bool, Field(description="Also those that are decided; the default is those that wait.")]
Limit = Annotated[int, Field(ge=1, le=200, description="Maximum number of approvals.")]
Always = Annotated[
    bool, Field(description="The agent may call this tool for this user without asking again, until that is revoked.")
]
Reason = Annotated[
    Annotated[str, Field(min_length=1, max_length=4000)] | None,
    Field(description="Why it is denied; the agent reads it.", examples=["Wait for the review of the team."]),
]


class CallApproval(Result):
    """A call that a person has to confirm."""

    id: str
    agent: str
    tool: str
    server: str | None = Field(description="The MCP server that has the tool; null for a tool of the daemon.")
    user: str = Field(description="For whom the agent acts.")
    kind: str = Field(description="The kind of its thread, such as `main`, `keyed` or `delivery`; empty if not known.")
    subject: str | None = Field(description="The subject of a keyed thread, as its sender gave it; null without one.")
    webhook: str | None = Field(description="The webhook whose delivery woke the agent; null if a person did.")
    delivery_id: str | None = Field(description="That delivery.")
    message: str = Field(
        description="The beginning of what the agent was woken with, up to 500 characters; it may be a sender's text."
    )
    arguments: dict[str, Any] | None = Field(
        description="The arguments, exactly as they will be given to the tool; null if the stored call was changed."
    )
    digest: str = Field(description="SHA-256 of what exactly is approved: tool, arguments, and the tool's schema.")
    state: State = Field(
        description="`awaiting` a decision, `approved`, `denied`, `expired`: nobody answered in time, `cancelled`: the "
        "run ended before."
    )
    cannot_run: str | None = Field(
        description="Why the call waits for its agent too: the agent is not in the program, disabled, or without a "
        "model; null if the call can run."
    )
    run_id: str
    thread_id: str
    created_at: UnixTime
    deadline: UnixTime = Field(description="The call is denied then.")
    decided_at: UnixTime | None = Field(description="The time of the decision; null without one.")
    decided_by: str | None = Field(description="The user who decided; null if nobody did.")
    decided_via: Via | None = Field(
        description="How: `cli`, `http`, or `mcp`, by a client of the Model Context Protocol; null if nobody decided, "
        "or if the stored decision was changed, and then the call does not run."
    )
    reason: str | None = Field(description="Why it was denied; null without a reason.")


class CallApprovals(Result):
    """Approvals, newest first."""

    approvals: list[CallApproval]


class ToolApproval(Result):
    """A tool that an agent may call for a user without asking."""

    id: str
    agent: str
    tool: str
    created_at: UnixTime
    decided_by: str = Field(description="The user who approved it.")
    decided_via: Via | None = Field(
        description="How: `cli`, `http` or `mcp`; null if the stored row was changed, and then it approves nothing."
    )


class ToolApprovals(Result):
    """Standing approvals, by agent and tool."""

    standing: list[ToolApproval]


VIA: Final[Mapping[Surface, Via]] = {"user": "cli", "api": "http", "agent": "mcp"}
"""Channel of a decision, by the surface of the call."""

log = structlog.get_logger("symbiont.approvals")


@tool("read", example={"agent": "assistant", "limit": 20})
async def approval_list(
    context: Context, agent: AgentFilter = None, decided: Decided = False, limit: Limit = 50, user: User = None
) -> CallApprovals:
    """List the calls of agents that wait for a person's approval.

    A call that nobody decides about until its deadline is denied.
    """
    user_id = await asked_user(context, user) or context.caller.user_id
    found = await _approvals(context).newest(user_id, waiting=not decided, agent=agent, limit=limit)
    if not found:
        check_agent(context, agent)
    known = await users.names(context.database)
    return CallApprovals(approvals=[_call_approval(context, each, known) for each in found])


@tool("read", example={"approval_id": EXAMPLE_ID})
async def approval_show(context: Context, approval_id: ApprovalId) -> CallApproval:
    """Show a call that waits for approval, or that was decided."""
    return await _with_names(context, await _find(context, approval_id))


@tool("write", destructive=True, example={"approval_id": EXAMPLE_ID})
async def approval_approve(context: Context, approval_id: ApprovalId, always: Always = False) -> CallApproval:
    """Approve a call: it runs exactly as it is shown, and its agent goes on.

    Of several decisions about a call only the first one counts. A call whose agent is not in the program waits for it.
    """
    found = await _find(context, approval_id)
    if (why := _hindrance(context, found)) is not None:
        raise Conflict(f"{why}, so this call cannot run", hint="approve it when the agent is back, or deny it")
    return await _decide(context, found, APPROVED, always=always)


@tool("write", example={"approval_id": EXAMPLE_ID, "reason": "Wait for the review."})
async def approval_deny(context: Context, approval_id: ApprovalId, reason: Reason = None) -> CallApproval:
    """Deny a call: it does not run, and its agent goes on and reads the reason.

    Of several decisions about a call only the first one counts.
    """
    return await _decide(context, await _find(context, approval_id), DENIED, reason=reason)


@tool("read", example={"agent": "assistant"})
async def standing_approval_list(context: Context, agent: AgentFilter = None, user: User = None) -> ToolApprovals:
    """List the tools that agents may call without asking, though they need approval."""
    user_id = await asked_user(context, user) or context.caller.user_id
    known = await users.names(context.database)
    found = await _approvals(context).standing.of_user(user_id, agent)
    if not found:
        check_agent(context, agent)
    return ToolApprovals(standing=[_tool_approval(each, known) for each in found])


@tool("write", example={"standing_id": EXAMPLE_ID})
async def standing_approval_revoke(context: Context, standing_id: StandingId) -> ToolApproval:
    """Revoke a standing approval: the next call of the tool waits for approval again."""
    revoked = await _approvals(context).standing.revoke(standing_id, user_filter(context, None))
    return _tool_approval(revoked, await users.names(context.database))


async def _decide(
    context: Context, found: Approval, state: str, *, reason: str | None = None, always: bool = False
) -> CallApproval:
    by, via = context.caller.user_id, VIA[context.caller.via]
    decided = await _approvals(context).decide(found.id, state, by=by, via=via, reason=reason, always=always)
    context.daemon.on_queued()
    about = {"tool": found.tool, "agent": found.agent, "approval": found.id}
    log.info("call_decided", state=state, by=by, via=via, always=always, **about)
    return await _with_names(context, decided)


async def _find(context: Context, approval_id: str) -> Approval:
    return await _approvals(context).find(approval_id, user_filter(context, None))


def _hindrance(context: Context, approval: Approval) -> str | None:
    """Return why a call could not run if it were approved now. Its run would end without it."""
    waits = approval.state_at(milliseconds(context.clock)) == AWAITING
    return absence(context, approval.agent) if waits else None


def _approvals(context: Context) -> Approvals:
    return Approvals(context.database, context.clock)


async def _with_names(context: Context, approval: Approval) -> CallApproval:
    return _call_approval(context, approval, await users.names(context.database))


def _call_approval(context: Context, approval: Approval, known: dict[str, str]) -> CallApproval:
    by = approval.decided_by
    return CallApproval.of(
        approval,
        **msgspec.to_builtins(approval.origin),
        user=users.display_name(known, approval.user_id),
        arguments=msgspec.json.decode(approval.arguments) if approval.arguments else None,
        state=approval.state_at(milliseconds(context.clock)),
        cannot_run=_hindrance(context, approval),
        decided_by=None if by is None else users.display_name(known, by),
    )


def _tool_approval(row: StandingApproval, known: dict[str, str]) -> ToolApproval:
    return ToolApproval.of(row, decided_by=users.display_name(known, row.decided_by), decided_via=row.via)
