"""The context of an agent before its first message, to see whether it fits into the window of its model."""

from __future__ import annotations

from typing import NamedTuple

from dslc.blocks.agent import Agent
from runtime.agents.attempt import declared_blocks
from runtime.agents.context.build import BuiltContext
from runtime.agents.context.fields import Budget
from runtime.agents.fixed_context import budget_of, fit, fixed_fields, time_text, zone_of
from runtime.api.admin.agents.chat import SCOPES
from runtime.api.admin.state import AdminContext
from runtime.clock import utc
from runtime.identity.caller import Caller
from runtime.memory.core.block import BlockScope
from runtime.tools.context import ActingAgent
from runtime.tools.model.agent_toolset import AgentIdentity


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
    about = context.agent_context(own, caller, ActingAgent(agent.name, "", None))
    if about.client is None:
        return None
    blocks = await context.services.blocks.blocks(BlockScope(caller.user_id, agent.name), declared_blocks(agent))
    tools = about.tools.of(
        agent.tools or None, caller, AgentIdentity(agent.name), tables=about.tool_context.no_tables is None
    )
    zone = await zone_of(context.database, caller.user_id, own.settings)
    time = time_text(utc(context.clock.now()), zone)
    fields = fixed_fields(agent, about.client, tools.schemas, blocks, own.settings, time=time)
    budget = await budget_of(agent, about.client)
    counter = await context.services.counters.of(about.client)
    return FirstContext(await fit(fields, budget, counter, about.client), budget)
