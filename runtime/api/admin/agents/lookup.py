"""The agent, the user and the thread that an operation names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dslc.blocks.agent import Agent
from runtime.api.admin.parameters import optional_text, text
from runtime.api.admin.state import AdminContext
from runtime.errors import NotFound, UsageError
from runtime.suggestions import unknown_name
from runtime.threads.thread import Thread, not_found
from runtime.tools.memory.access import asked_user

_NO_MODEL = "none"
"""The row of a model that is none."""


async def user_of(context: AdminContext, parameters: Mapping[str, Any]) -> str:
    """Return the id of the user `user`, by default the caller's. Raises UsageError for an unknown one."""
    return await asked_user(context, optional_text(parameters, "user")) or context.caller.user_id


def model_of(agent: Agent) -> str | None:
    """Return the name of an agent's model, a block or a row; None for a recorder."""
    return None if agent.model is None or agent.model.name == _NO_MODEL else agent.model.name


def talking_agent(context: AdminContext, parameters: Mapping[str, Any]) -> Agent:
    """Return the agent `agent`, by default the only one with a model.

    Raises UsageError if there is none or are several, if it has no model or is disabled; NotFound, with the nearest
    names, if there is no such agent.
    """
    name = optional_text(parameters, "agent")
    declared = context.program.agents
    able = sorted(each for each, agent in declared.items() if model_of(agent) is not None and agent.enabled)
    if name is None:
        if len(able) == 1:
            return declared[able[0]]
        if not able:
            raise UsageError("no agent has a model", hint="give one a model: `agent NAME { model … }`")
        raise UsageError(f"{len(able)} agents have a model: {', '.join(able)}", hint="name one of them")
    agent = declared.get(agent_name(context, name))
    if agent is None or model_of(agent) is None:
        raise UsageError(
            f"the agent {name} has no model: it only records deliveries",
            hint="give it one: `agent NAME { model … }`",
        )
    if not agent.enabled:
        raise UsageError(f"the agent {name} is disabled", hint="remove `enabled false` from its block")
    return agent


def agent_name(context: AdminContext, name: str) -> str:
    """Return the name of an agent of the program. Raises NotFound with the nearest names."""
    if name not in context.agents:
        raise unknown_name("agent", name, context.agents, NotFound)
    return name


async def thread_of(context: AdminContext, parameters: Mapping[str, Any]) -> Thread:
    """Return the thread `thread` of the user. Raises NotFound with the nearest ids."""
    user_id, threads = await user_of(context, parameters), context.services.threads
    thread_id = text(parameters, "thread")
    try:
        return await threads.get(thread_id, user_id=user_id)
    except NotFound:
        raise not_found(thread_id, await threads.nearest(thread_id, user_id)) from None


async def talking_thread(context: AdminContext, parameters: Mapping[str, Any], agent: Agent) -> Thread:
    """Return the thread `thread` of the user with the agent, by default the main one.

    Raises NotFound if there is none, UsageError if it is another agent's.
    """
    if parameters.get("thread") is None:
        return await context.services.threads.main(await user_of(context, parameters), agent.name)
    thread = await thread_of(context, parameters)
    if thread.agent != agent.name:
        raise UsageError(f"the thread {thread.id} is one of the agent {thread.agent}")
    return thread
