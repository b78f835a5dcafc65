"""Types of the parameters and results of the tools on approvals, from which their schemas are built."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from runtime.threads.approvals.approval import Via
from runtime.tools.patterns import AGENT, EXAMPLE_ID
from runtime.tools.result import Result

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
    created_at: datetime
    deadline: datetime = Field(description="The call is denied then.")
    decided_at: datetime | None = Field(description="The time of the decision; null without one.")
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
    created_at: datetime
    decided_by: str = Field(description="The user who approved it.")
    decided_via: Via | None = Field(
        description="How: `cli`, `http` or `mcp`; null if the stored row was changed, and then it approves nothing."
    )


class ToolApprovals(Result):
    """Standing approvals, by agent and tool."""

    standing: list[ToolApproval]
