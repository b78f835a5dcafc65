"""The tools by which people and their programs talk with agents (the fourth design, section 7.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Any, Final

from pydantic import Field

from dslc.blocks.agent import Agent
from runtime.database.errors import Unavailable
from runtime.errors import NotFound, Retry
from runtime.threads.agent_settings import AgentSettings
from runtime.threads.events.log import EventLog
from runtime.threads.events.run_event import DONE as RUN_ENDED
from runtime.threads.events.run_event import MESSAGE, TYPING
from runtime.threads.inputs import Inputs
from runtime.threads.run import DONE, WAITING
from runtime.threads.thread import Thread, Threads, not_found
from runtime.threads.turns.named_run import NamedRun, named_run
from runtime.tools.agent.access import talking_agent
from runtime.tools.agent.follower import RETRY_SECONDS, Event, Follower, Target
from runtime.tools.agent.input_items import Input, text_of_input
from runtime.tools.agent.overrides import running_agent
from runtime.tools.agent.run_answer import AgentTurn, UsageAnswer, answer_of
from runtime.tools.agent.types import AgentName
from runtime.tools.context import Context
from runtime.tools.failure import wrong
from runtime.tools.patterns import EXAMPLE_ID, UUID
from runtime.tools.result import Result
from runtime.tools.tool import LARGEST_ITEMS, tool

WAIT_SECONDS: Final = 50
"""Seconds for which a call waits for the end of its run: many proxies end a request without an answer after 60."""
LONGEST_WAIT: Final = 600

MainAgent = Annotated[AgentName | None, Field(description="The agent's name; the default is the main agent.")]
AnyAgent = Annotated[AgentName | None, Field(description="Only of this agent; the default is all.")]
RunId = Annotated[
    str,
    Field(pattern=UUID, description="The id of a run.", examples=[EXAMPLE_ID]),
]
ThreadId = Annotated[
    Annotated[str, Field(pattern=UUID)] | None,
    Field(
        description="The id of one of your threads with the agent; the default is the main thread.",
        examples=[EXAMPLE_ID],
    ),
]
ChatSubject = Annotated[
    Annotated[str, Field(min_length=1, max_length=1000)] | None,
    Field(
        description="Whose memory, for callers that speak for many people, such as a customer's number: the "
        "conversation is in the thread of this subject, which has a memory of its own. Not with `thread`."
    ),
]
Metadata = Annotated[
    Annotated[
        dict[
            Annotated[str, Field(min_length=1, max_length=64)],
            Annotated[str, Field(max_length=512)],
        ],
        Field(max_length=16),
    ]
    | None,
    Field(
        description="Up to 16 texts by name, stored with the message. No agent sees them.",
        examples=[{"channel": "web"}],
    ),
]
Wait = Annotated[
    int,
    Field(
        ge=0,
        le=LONGEST_WAIT,
        description="Seconds to wait for the end of the run. If it goes on after that, `ended` is null; a run that "
        "waits for a decision is not waited for.",
    ),
]


class CancelledRun(Result):
    """The state of a run that was cancelled: `running` until its current step stops."""

    run: str
    state: str


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    long=True,
    example={"input": "What did we decide about the API?", "wait": 30},
)
async def agent_chat(
    context: Context,
    input: Input,  # noqa: A002 - the name in the Responses API
    agent: MainAgent = None,
    thread: ThreadId = None,
    subject: ChatSubject = None,
    metadata: Metadata = None,
    wait: Wait = WAIT_SECONDS,
) -> AgentTurn:
    """Send a message to an agent, and wait for its answer.

    The message is stored before anything else: it is answered even if the caller leaves, or the daemon stops meanwhile.
    """
    text, found = text_of_input(input), talking_agent(context, agent)
    _need_daemon(context)
    settings = AgentSettings(context.database, context.clock)
    caller, inputs = context.caller, Inputs(context.database, context.clock)

    async def within_limits() -> None:
        if context.limits.budgets is not None:
            await context.limits.budgets.check(caller.user_id, found.name)

    # At the same time: each is a read.
    _, _, place = await asyncio.gather(
        running_agent(settings, context.program, found, caller.user_id),
        within_limits(),
        _place(context, found, thread, subject),
    )
    run_id = await inputs.send(caller.user_id, found.name, place.id, text, caller.scopes, metadata)
    context.daemon.on_queued()
    if not wait:
        return _new_turn(run_id, place)
    return await _follow(context, run_id, wait, place)


@tool("read", example={"run": EXAMPLE_ID})
async def agent_run_show(context: Context, run: RunId, agent: AnyAgent = None, wait: Wait = 0) -> AgentTurn:
    """Return the state of a run, and what the agent said and called in it.

    It can be of a message or of a delivery.
    """
    await _run_of_agent(context, run, agent)
    return await _follow(context, run, wait)


@tool("write", idempotent=True, example={"run": EXAMPLE_ID})
async def agent_run_cancel(context: Context, run: RunId, agent: AnyAgent = None) -> CancelledRun:
    """Cancel a run.

    What the agent did until then stays, also what it said.
    """
    await _run_of_agent(context, run, agent)
    return CancelledRun(run=run, state=await _need_daemon(context)(run, context.caller.user_id))


def _new_turn(run_id: str, thread: Thread) -> AgentTurn:
    """Return the turn of a message that was sent just now."""
    usage = UsageAnswer(calls=0, tokens_in=0, tokens_out=0, cached=0, cost=None)
    return AgentTurn(
        run=run_id,
        agent=thread.agent,
        thread=thread.id,
        state=WAITING,
        ended=None,
        messages=[],
        tool_calls=[],
        notes=[],
        usage=usage,
        error=None,
    )


def _need_daemon(context: Context) -> Any:
    if context.daemon.cancel_run is None:
        raise Retry("no daemon is running, and only a daemon runs agents", hint="start it with `symbi up`")
    return context.daemon.cancel_run


async def _place(context: Context, agent: Agent, thread_id: str | None, subject: str | None) -> Thread:
    """Return the thread of a message. Raises NotFound, and WrongParameters for both a thread and a subject."""
    user_id, threads = context.caller.user_id, Threads(context.database, context.clock)
    if subject is not None:
        if thread_id is not None:
            raise wrong("subject", "a thread has its subject already", hint="leave out thread or subject")
        if not subject.strip():
            raise wrong("subject", "it is blank")
        return await threads.for_subject(user_id, agent.name, subject)
    if thread_id is None:
        return await threads.main(user_id, agent.name)
    thread = await threads.get(thread_id, user_id=user_id)
    if thread.agent != agent.name:
        raise not_found(thread_id)
    return thread


async def _run_of_agent(context: Context, run_id: str, agent: str | None) -> NamedRun:
    """Return a run of the caller, and of the agent if one is named. Raises NotFound."""
    found = await named_run(context.database, run_id, context.caller.user_id)
    if agent not in (None, found.run.agent):
        raise NotFound(f"there is no run {run_id} of {agent}")
    return found


async def _follow(context: Context, run_id: str, seconds: float, sent_to: Thread | None = None) -> AgentTurn:
    """Return a run when it is over, or waits for a decision, or after `seconds`. `sent_to`: its message was sent to
    this thread just now, so there is nothing to see before its end."""
    loop, user_id = asyncio.get_running_loop(), context.caller.user_id
    end, events = loop.time() + seconds, list[Event]()
    if seconds:
        after = None if sent_to else (await EventLog(context.database, context.clock).bounds(user_id)).newest
        target = Target(run_id, after=after, is_new=sent_to is not None)
        follower = Follower(context.database, context.clock, user_id, target)
        async with aclosing(follower.events(end)) as found:
            async for event in found:
                events += () if event is None else (event,)
                if context.daemon.is_stopping() or (follower.run is not None and not follower.run.is_active):
                    break
        if sent_to is not None and (turn := _answered_turn(events, run_id, sent_to)) is not None:
            return turn
    while True:
        try:
            return (await answer_of(context, run_id, user_id))[1]
        except Unavailable:
            if loop.time() >= end or context.daemon.is_stopping():
                raise
            await asyncio.sleep(RETRY_SECONDS)


def _answered_turn(events: Sequence[Event], run_id: str, thread: Thread) -> AgentTurn | None:
    """Return a run that has ended as its events describe it, without a read; None if they do not have all of it, such
    as what tools returned."""
    if [event.name for event in events] != [TYPING, MESSAGE, RUN_ENDED]:
        return None
    said, last = events[1].data["messages"], events[2].data
    if (last["ended"], last["total_steps"], last["total_messages"]) != ("answered", 1, len(said)):
        return None
    whole = {"state": DONE, "ended": last["ended"], "messages": said, "usage": UsageAnswer(**last["usage"])}
    return _new_turn(run_id, thread).model_copy(update=whole)
