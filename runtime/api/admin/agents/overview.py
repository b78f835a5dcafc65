"""Operations that show agents and their runs."""

from __future__ import annotations

from heapq import nlargest
from operator import attrgetter
from typing import Annotated, Any

from pydantic import Field

from dslc.blocks.agent import Agent
from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import Text, attributes, time_json
from runtime.api.admin.state import AdminContext
from runtime.models.calls.usage import run_usage
from runtime.switches import SwitchedOff
from runtime.threads.run import RunRow, newest_runs
from runtime.tools.agent.access import check_agent, main_name, model_of, named_agent


@operation()
async def agent_show(context: AdminContext, agent: Text) -> dict[str, Any]:
    """Return the settings of an agent, with its last run for the user."""
    declared, user_id = named_agent(context, agent), context.caller.user_id
    last = await newest_runs(context.database, user_id, agent, 1)
    return {
        "agent": agent,
        "model": model_of(declared),
        "main": main_name(context) == agent,
        "memory": declared.memory,
        "thread": declared.thread.name,
        "enabled": await _is_enabled(context, declared, user_id),
        "last_run": _run(context, last[0]) if last else None,
        "instruction": declared.instruction,
        "tools": [str(tool) for tool in declared.tools],
        "confirm": [str(tool) for tool in declared.confirm],
        "limits": declared.limits.model_dump(exclude_none=True),
        "lock": list(declared.lock),
        **attributes(declared, "tool_calling", "max_steps"),
        **attributes(declared.context, "max_tokens", "reply_tokens"),
        "summarizer": None if declared.summarizer.model is None else declared.summarizer.model.name,
        "blocks": [block.name for block in declared.block],
        "declared": context.program.origins.get(("agent", agent)),
    }


@operation()
async def agent_runs(
    context: AdminContext,
    agent: Annotated[Text | None, Field(description="Only runs of this agent.")] = None,
    limit: Annotated[int, Field(ge=1, le=1000, description="Maximum number of runs.")] = 20,
) -> dict[str, Any]:
    """Return the newest `limit` runs of the agent `agent`, by default of all agents of the program, newest
    first, with what the calls of models used. An agent that is not in the program any more is found by its name."""
    user_id = context.caller.user_id
    names = sorted(context.agents) if agent is None else [agent]
    found = [run for each in names for run in await newest_runs(context.database, user_id, each, limit)]
    if not found and agent is not None:
        check_agent(context, agent)
    runs = nlargest(limit, found, key=attrgetter("started_at", "id"))
    return {
        "runs": [_run(context, run) | {"usage": (await run_usage(context.database, run.id))._asdict()} for run in runs]
    }


async def _is_enabled(context: AdminContext, agent: Agent, user_id: str) -> bool:
    """Return False for an agent that the program disables, or the user."""
    try:
        await context.services.running_agent(context.program, agent, user_id)
    except SwitchedOff:
        return False
    return agent.enabled


def _run(context: AdminContext, run: RunRow) -> dict[str, Any]:
    state, error = context.shown_state(run.state, run.error)
    return {
        "run": run.id,
        "agent": run.agent,
        "thread": run.thread_id,
        "trigger": run.trigger,
        "delivery": run.delivery_id,
        "state": state,
        "ended": run.ended,
        "attempts": run.attempt,
        "started": time_json(run.started_at),
        "finished": time_json(run.finished_at),
        "error": error,
    }
