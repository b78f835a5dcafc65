"""The context of an agent before its first message, to see whether it fits into the window of its model."""

from __future__ import annotations

from typing import NamedTuple

from dslc.blocks.agent import Agent
from runtime.agents.answer import declared_blocks
from runtime.agents.context.build import BuiltContext
from runtime.agents.context.fields import Budget
from runtime.agents.fixed_context import budget_of, fit, fixed_fields, ordered_tools
from runtime.api.admin.agents.chat import SCOPES
from runtime.api.admin.state import AdminContext
from runtime.clock import utc
from runtime.identity.caller import Caller
from runtime.memory.core.block import BlockScope
from runtime.memory.item import rfc3339
from runtime.tools.context import Acting
from runtime.tools.model.agent_toolset import AgentIdentity, AgentToolset


class FirstContext(NamedTuple):
    """A context without messages, and its budget."""

    context: BuiltContext
    budget: Budget


async def first_context(context: AdminContext, agent: Agent) -> FirstContext | None:
    """Return the context of an agent with the blocks and preferences of the caller as they are now; None for a
    recorder. Nothing is stored, and no model is asked.

    Raises NoRoom, ModelUnavailable for a model that cannot be opened, `Unsealable`, and `Unavailable`.
    """
    caller = Caller(context.caller.user_id, frozenset(SCOPES))
    own = await context.services.own_agent(context.program, agent, caller.user_id)
    agent = own.agent
    about = context.agent_context(own, caller, Acting(agent.name, "", None))
    if about.client is None:
        return None
    blocks = await context.services.blocks.blocks(BlockScope(caller.user_id, agent.name), declared_blocks(agent))
    tools = AgentToolset.for_agent(agent.tools or None, caller, AgentIdentity(agent.name), about.tools)
    time = rfc3339(utc(context.clock.now()))
    fields = fixed_fields(agent, about.client, ordered_tools(tools), blocks, own.settings, time=time)
    budget = await budget_of(agent, about.client)
    return FirstContext(await fit(fields, budget, context.services.counter(about.client), about.client), budget)
