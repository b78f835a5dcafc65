"""The agent, the user and the thread that an operation names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dslc.blocks.agent import Agent
from runtime.api.admin.parameters import optional_text, text
from runtime.api.admin.state import AdminContext
from runtime.errors import Conflict, NotFound, UsageError
from runtime.suggestions import unknown_name
from runtime.threads.thread import Thread, not_found
from runtime.tools.agent import access
from runtime.tools.memory.access import asked_user


async def user_of(context: AdminContext, parameters: Mapping[str, Any]) -> str:
    """Return the id of the user `user`, by default the caller's. Raises UsageError for an unknown one."""
    return await asked_user(context, optional_text(parameters, "user")) or context.caller.user_id


def talking_agent(context: AdminContext, parameters: Mapping[str, Any]) -> Agent:
    """Return the agent `agent`, by default the main one.

    Raises UsageError if there is none or are several, if it has no model or is disabled; NotFound, with the nearest
    names, if there is no such agent.
    """
    try:
        return access.talking_agent(context, optional_text(parameters, "agent"))
    except Conflict as several:
        raise UsageError(str(several), hint=several.hint) from None


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
