"""An agent whose calls wait for a person."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import update

from runtime.database.schema import OWNER, TURN_TABLES, approvals
from runtime.identity.caller import Caller, Scope, Surface
from runtime.threads.approvals.approval import Approval
from runtime.threads.run import AWAITING
from runtime.tools.approvals.decide import CallApproval
from runtime.tools.toolset import ALL_TOOLS
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import ScriptedModel

CONFIRM = "confirm [memory_append]"


def note(text: str) -> dict[str, Any]:
    """Return the arguments of a call of `memory_append`."""
    return {"label": "human", "content": text}


@asynccontextmanager
async def asking(folder: Path, model: ScriptedModel, more: str = CONFIRM) -> AsyncIterator[Acting]:
    """Run the agent `helper`, whose notes are to be confirmed."""
    async with acting(folder, program(model, more)) as agent:
        yield agent


async def parked(agent: Acting, run_id: str) -> list[Approval]:
    """Return what a run waits for, oldest first, once it is parked."""
    await agent.until(run_id, lambda row: row.state == AWAITING)
    return await agent.services.approvals.of_run(run_id, OWNER)


async def decide(
    agent: Acting,
    name: str,
    given: Mapping[str, Any],
    *,
    user_id: str = OWNER,
    scope: Scope = "write",
    via: Surface = "user",
) -> CallApproval:
    """Call a tool on approvals as a person does."""
    context = agent.app.contexts.tool(Caller(user_id, frozenset({scope}), via=via))
    done = await ALL_TOOLS.call(name, context, given)
    agent.dispatcher.wake()
    assert isinstance(done, CallApproval)
    return done


async def approve(agent: Acting, approval: Approval, **given: Any) -> CallApproval:
    return await decide(agent, "approval_approve", {"approval_id": approval.id, **given})


async def deny(agent: Acting, approval: Approval, reason: str | None = None) -> CallApproval:
    return await decide(agent, "approval_deny", {"approval_id": approval.id, "reason": reason})


async def pass_deadlines(agent: Acting) -> None:
    """Let the deadlines of all calls that wait be over, and the turns due that wait for them."""

    def pass_all(connection: Any) -> None:
        waiting = approvals.c.state == "awaiting"
        connection.execute(update(approvals).where(waiting).values(deadline=1))
        for table in TURN_TABLES.values():
            connection.execute(update(table).where(table.c.state == "queued").values(next_attempt_at=1))

    await agent.app.state.database.transact(pass_all)
    agent.dispatcher.wake()
