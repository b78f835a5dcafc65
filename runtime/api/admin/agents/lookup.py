"""The agent and the thread that an operation names."""

from __future__ import annotations

from dslc.blocks.agent import Agent
from runtime.api.admin.state import AdminContext
from runtime.errors import Conflict, UsageError
from runtime.threads.thread import Thread
from runtime.tools.agent import access
from runtime.tools.conversations.overview import own_thread


def talking_agent(context: AdminContext, name: str | None) -> Agent:
    """Return the agent called `name`, by default the main one.

    Raises UsageError if there is none or are several, if it has no model or is disabled; NotFound, with the nearest
    names, if there is no such agent.
    """
    try:
        return access.talking_agent(context, name)
    except Conflict as several:
        raise UsageError(str(several), hint=several.hint) from None


async def talking_thread(context: AdminContext, thread_id: str | None, agent: Agent) -> Thread:
    """Return the thread of the user with the agent that has this id, by default the main one.

    Raises NotFound if there is none, UsageError if it is another agent's.
    """
    if thread_id is None:
        return await context.services.threads.main(context.caller.user_id, agent.name)
    thread = await own_thread(context, thread_id, None, None)
    if thread.agent != agent.name:
        raise UsageError(f"the thread {thread.id} is one of the agent {thread.agent}")
    return thread
