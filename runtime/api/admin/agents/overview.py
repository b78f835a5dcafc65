"""Operations that show agents and their runs."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from operator import attrgetter
from typing import Any

from dslc.blocks.agent import Agent
from runtime.api.admin.agents.lookup import agent_name, user_of
from runtime.api.admin.parameters import integer, optional_text, text, time_json
from runtime.api.admin.state import AdminContext
from runtime.models.calls.usage import used_by
from runtime.switches import SwitchedOff
from runtime.threads.run import RunRow, newest_runs
from runtime.tools.agent.access import main_name, model_of


async def list_agents(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agents of the program, with their last run for the user."""
    user_id = await user_of(context, parameters)
    rows = [await _row(context, name, user_id) for name in sorted(context.agents)]
    return {"agents": rows}


async def show(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the agent `agent`, with its last run for the user."""
    name = agent_name(context, text(parameters, "agent"))
    agent = _agent(context, name)
    return {
        **await _row(context, name, await user_of(context, parameters)),
        "instruction": agent.instruction,
        "tools": [str(tool) for tool in agent.tools],
        "confirm": [str(tool) for tool in agent.confirm],
        "limits": agent.limits.model_dump(exclude_none=True),
        "lock": list(agent.lock),
        "tool_calling": agent.tool_calling,
        "max_steps": agent.max_steps,
        "max_tokens": agent.context.max_tokens,
        "reply_tokens": agent.context.reply_tokens,
        "summarizer": None if agent.summarizer.model is None else agent.summarizer.model.name,
        "blocks": [block.name for block in agent.block],
        "declared": context.program.origins.get(("agent", name)),
    }


async def list_runs(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the newest `limit` runs of the agent `agent`, by default of all agents of the program, newest
    first, with what the calls of models used. An agent that is not in the program any more is found by its name."""
    user_id, limit = await user_of(context, parameters), integer(parameters, "limit", 20, 1, 1000)
    name = optional_text(parameters, "agent")
    names = sorted(context.agents) if name is None else [name]
    found = [run for each in names for run in await newest_runs(context.database, user_id, each, limit)]
    if not found and name is not None:
        agent_name(context, name)
    newest = nlargest(limit, found, key=attrgetter("started_at", "id"))
    return {
        "runs": [{**_run(context, run), "usage": (await used_by(context.database, run.id))._asdict()} for run in newest]
    }


async def _row(context: AdminContext, name: str, user_id: str) -> dict[str, Any]:
    agent = _agent(context, name)
    last = await newest_runs(context.database, user_id, name, 1)
    return {
        "agent": name,
        "model": model_of(agent),
        "main": main_name(context) == name,
        "memory": agent.memory,
        "thread": agent.thread.name,
        "enabled": await _is_enabled(context, agent, user_id),
        "last_run": _run(context, last[0]) if last else None,
    }


async def _is_enabled(context: AdminContext, agent: Agent, user_id: str) -> bool:
    """Return False for an agent that the program disables, or the user."""
    try:
        await context.services.running_agent(context.program, agent, user_id)
    except SwitchedOff:
        return False
    return agent.enabled


def _agent(context: AdminContext, name: str) -> Agent:
    """Return a declared agent, or the recorder that a webhook names without a declaration."""
    return context.program.agents.get(name) or Agent(name=name)


def _run(context: AdminContext, run: RunRow) -> dict[str, Any]:
    state, error = context.shown(run.state, run.error)
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
