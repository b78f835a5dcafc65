"""Types of the parameters and results of the tools on approvals, from which their schemas are built."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from runtime.tools.patterns import AGENT

State = Literal["awaiting", "approved", "denied", "expired", "cancelled"]

ApprovalId = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f-]{1,36}$",
        description="The id of the approval, or the beginning of it that no other one has.",
        examples=["0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"],
    ),
]
StandingId = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f-]{1,36}$",
        description="The id of the standing approval, or the beginning of it that no other one has.",
        examples=["0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"],
    ),
]
AgentFilter = Annotated[
    Annotated[str, Field(pattern=AGENT)] | None, Field(description="Only those of this agent; the default is all.")
]
User = Annotated[
    Annotated[str, Field(min_length=1, max_length=200)] | None,
    Field(
        description="The user, by name or by `id:` and the id; the default is the caller. Other users require the "
        "scope `admin`."
    ),
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


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class CallApproval(_Result):
    """A call that a person has to confirm."""

    id: str
    agent: str
    tool: str
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
    reason: str | None = Field(description="Why it was denied; null without a reason.")


class CallApprovals(_Result):
    """Approvals, newest first."""

    approvals: list[CallApproval]


class ToolApproval(_Result):
    """A tool that an agent may call for a user without asking."""

    id: str
    agent: str
    tool: str
    created_at: datetime
    decided_by: str = Field(description="The user who approved it.")


class ToolApprovals(_Result):
    """Standing approvals, by agent and tool."""

    standing: list[ToolApproval]
