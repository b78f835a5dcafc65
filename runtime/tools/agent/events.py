"""The tool that reads the log of what happens in runs (the fourth design, section 7.3)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from runtime.clock import utc
from runtime.threads.events.log import EventLog, StoredEvent
from runtime.tools.agent.access import check_agent
from runtime.tools.agent.chat import AnyAgent
from runtime.tools.agent.follower import event_data
from runtime.tools.context import Context
from runtime.tools.result import Result
from runtime.tools.tool import tool

After = Annotated[
    Annotated[int, Field(ge=0, lt=10**18)] | None,
    Field(description="Only events with greater ids: the `next` of the call before. The default is all."),
]
Limit = Annotated[int, Field(ge=1, le=200, description="Maximum number of events.")]


class AgentEvent(Result):
    """Something that happened in a run."""

    id: int
    event: str = Field(description="`agent.typing`, `agent.message`, `agent.tool`, `agent.done` and so on.")
    time: datetime
    data: dict[str, Any] = Field(description="`run`, `agent` and `thread`, and what the event tells.")


class AgentEvents(Result):
    """Events in the order in which they happened."""

    events: list[AgentEvent]
    next: int = Field(description="Give it as `after` for the events that follow.")


@tool("read", group="agent-memory", example={"after": 0, "limit": 100})
async def agent_events(
    context: Context, agent: AnyAgent = None, after: After = None, limit: Limit = 100
) -> AgentEvents:
    """Return what happened in one's runs of agents in the last day.

    Deliveries are included: what agents say outside of a conversation is found here.
    """
    check_agent(context, agent)
    log = EventLog(context.database, context.clock)
    page = await log.page(context.caller.user_id, after or 0, agent=agent, limit=limit)
    return AgentEvents(events=[_event(each) for each in page.events], next=page.read_to)


def _event(event: StoredEvent) -> AgentEvent:
    return AgentEvent(id=event.number, event=event.name, time=utc(event.created_at / 1000), data=event_data(event))
