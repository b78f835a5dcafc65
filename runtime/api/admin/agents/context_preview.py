"""The operation that shows what the context of an agent is made of."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import Field

from dslc.blocks.agent import Agent
from runtime.agents.attempt import Preview, declared_blocks, preview
from runtime.agents.context.build import BuiltContext
from runtime.agents.context.fields import Budget
from runtime.agents.fixed_context import budget_of, fit, fixed_fields, time_text, zone_of
from runtime.api.admin.agents.chat import SCOPES
from runtime.api.admin.agents.lookup import talking_agent, talking_thread
from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import OptionalAgent, Text, time_json
from runtime.api.admin.state import AdminContext
from runtime.clock import milliseconds, utc
from runtime.errors import UsageError
from runtime.identity.caller import Caller
from runtime.memory.core.block import BlockScope
from runtime.tasks.due import due_text
from runtime.tasks.urgent import UrgentTask
from runtime.threads.inputs import ClaimedInput
from runtime.threads.run_log import RunLog
from runtime.tools.context import ActingAgent
from runtime.tools.model.agent_toolset import AgentIdentity


def _urgent(urgent: UrgentTask, built: Preview) -> dict[str, Any]:
    task = urgent.task
    return {
        "task_id": task.id,
        "title": task.title,
        "priority": task.priority,
        "due_date": due_text(task.due),
        "overdue": urgent.overdue,
        "subject": task.subject,
        "said_at": time_json(task.said_at),
        "in_context": built.context.says_urgent and task.id in built.notice.task_ids,
    }


@operation(searches=True)
async def agent_context_preview(
    context: AdminContext,
    agent: OptionalAgent = None,
    thread: Annotated[Text | None, Field(description="In this thread; the default is the main one.")] = None,
) -> dict[str, Any]:
    """Return the parts of the context with which the agent `agent`, by default the main agent, would answer
    in the thread `thread` now, by default in the main one, with the tokens of each. No model is asked.

    `window_source`: who says how large the window is: `program`, `service`, `known` (published data of the model),
    `default`, or `max_tokens` of the agent.

    `urgent_tasks`: in the main thread of the main agent the user's urgent and overdue tasks, when each was said last,
    and whether this context says it."""
    talking = talking_agent(context, agent)
    open_thread = await talking_thread(context, thread, talking)
    user_id = open_thread.user_id
    turn = ClaimedInput(
        id=open_thread.id,
        run_id="",
        attempt=0,
        tries=0,
        agent=talking.name,
        user_id=user_id,
        thread_id=open_thread.id,
        text="",
        scopes=frozenset(SCOPES),
        sent_at=milliseconds(context.clock),
    )
    own = await context.services.own_agent(context.program, talking, user_id)
    about = context.agent_context(own, Caller(user_id, turn.scopes), ActingAgent(talking.name, "", open_thread.id))
    if about.client is None:
        raise UsageError(f"the agent {talking.name} has no model")
    run_log = RunLog(context.database, context.clock, turn.run_id, turn.attempt, user_id=user_id)
    built = await preview(turn, run_log, about, about.client)
    return {
        "agent": talking.name,
        "thread": open_thread.id,
        "tokens": built.context.tokens,
        "window": built.budget.window,
        "window_source": built.budget.source,
        "reply": built.budget.reply,
        "parts": [part._asdict() for part in built.context.parts],
        "notes": list(built.context.notes),
        "urgent_tasks": [_urgent(each, built) for each in built.urgent],
        "messages": [{"role": message.role, "content": message.text} for message in built.context.messages],
    }


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
