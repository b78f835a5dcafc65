"""Operations of a conversation: open it, send a message, and follow the run that answers it."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated, Any, Final

from pydantic import Field

from runtime.agents.attempt import memory_subject
from runtime.api.admin.agents.lookup import talking_agent, talking_thread
from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import OptionalAgent, Text
from runtime.api.admin.state import AdminContext
from runtime.errors import SymbiontError
from runtime.models.model import ModelUnavailable
from runtime.switches import AGENTS
from runtime.threads.content import TextPart
from runtime.threads.events.run_event import NOTE, TYPING
from runtime.threads.messages import Message
from runtime.threads.run import AWAITING, BUDGET_EXCEEDED, SWITCHED_OFF
from runtime.threads.thread import Thread
from runtime.threads.turns.named_run import named_run
from runtime.tools.agent.access import model_of
from runtime.tools.agent.follower import Follower, Target
from runtime.tools.agent.run_answer import AnsweredRun, answer_of
from runtime.tools.conversations.overview import own_thread

LONGEST_PATIENCE: Final = 86_400
_HISTORY_MESSAGES: Final = 50

Patience = Annotated[int, Field(ge=0, le=LONGEST_PATIENCE)]

SCOPES: Final = ("write",)
"""Scopes of an agent that answers a message of the root's own user: it reads and writes what is its user's."""


@operation(changes=True)
async def chat_open(
    context: AdminContext, agent: OptionalAgent = None, thread: Text | None = None, new: bool = False
) -> dict[str, Any]:
    """Return the thread in which to talk with the agent `agent`, by default the main agent: the main thread
    of the user, with `new` a new conversation, or the thread `thread`.

    `said`: what the user said there before, oldest first. `subject`: whose core memory the agent has there; null for
    its own.
    """
    context.switches.need(AGENTS)
    talking, user_id = talking_agent(context, agent), context.caller.user_id
    own = await context.services.running_agent(context.program, talking, user_id)
    if new:
        open_thread = await context.services.threads.conversation(user_id, talking.name)
    else:
        open_thread = await talking_thread(context, thread, talking)
    earlier = await context.services.messages.newest(open_thread, limit=_HISTORY_MESSAGES)
    said = [message.text for message in earlier if _is_from_person(message)]
    return {
        "agent": talking.name,
        "model": model_of(own.agent),
        "thread": open_thread.id,
        "kind": open_thread.kind,
        "subject": memory_subject(open_thread, talking),
        "messages": open_thread.message_count,
        "said": said,
    }


@operation(changes=True)
async def chat_send(
    context: AdminContext,
    message: Text,
    agent: OptionalAgent = None,
    thread: Text | None = None,
    patience: Patience = 0,
    decides: bool = False,
) -> dict[str, Any]:
    """Send `message` to the agent `agent` in the thread `thread`, by default the main one, and follow its run.

    Tells `sent` with the ids of the run and of the thread, then what happens, see `chat_follow`.
    """
    context.switches.need(AGENTS)
    talking, services = talking_agent(context, agent), context.services
    if context.daemon.cancel_run is None:
        raise no_daemon()
    open_thread = await talking_thread(context, thread, talking)
    await services.running_agent(context.program, talking, open_thread.user_id)
    if context.limits.budgets is not None:
        await context.limits.budgets.check(open_thread.user_id, talking.name)
    if context.limits.texts is not None:
        await context.limits.texts.check(open_thread.user_id, len(message.encode()), context.memories)
    run_id = await services.inputs.send(open_thread.user_id, talking.name, open_thread.id, message, SCOPES)
    context.daemon.on_queued()
    context.tell({"event": "sent", "run": run_id, "thread": open_thread.id})
    return await _follow_run(context, open_thread, Target(run_id, is_new=True), patience, decides=decides)


@operation()
async def chat_follow(
    context: AdminContext,
    run: Text,
    thread: Text,
    after: Annotated[int, Field(ge=0, le=10**18)] = 0,
    patience: Patience = 0,
    decides: bool = False,
) -> dict[str, Any]:
    """Follow the run `run` of a message until it ends, or its model was away for `patience` seconds (0: however long).
    With a patience it also ends while a call waits for approval, unless the follower `decides`.

    Tells the events of the run, from the beginning or after the id `after`, with the parts of messages as they are
    written. At a limit of a budget it is not followed any longer if `patience` is given. Returns what the agent said
    and called, and how the run ended: null if it goes on.
    """
    open_thread = await own_thread(context, thread, None, None)
    await named_run(context.database, run, open_thread.user_id)
    return await _follow_run(context, open_thread, Target(run, after=after), patience, decides=decides)


def no_daemon() -> SymbiontError:
    """Return the error of an operation that needs a daemon."""
    return SymbiontError("no daemon is running, and only a daemon runs agents", hint="start it with `symbi up`")


def _is_from_person(message: Message) -> bool:
    """Return False for a delivery, which has a part with its payload."""
    return message.role == "user" and all(isinstance(part, TextPart) for part in message.parts)


async def _follow_run(
    context: AdminContext, thread: Thread, target: Target, patience: int, *, decides: bool
) -> dict[str, Any]:
    """Follow a run until it has ended or the patience is over, and return its answer."""
    assert target.run_id is not None
    follower = Follower(context.database, context.clock, thread.user_id, target, context.services.deltas)
    away_since: float | None = None
    away: AnsweredRun | None = None
    async with aclosing(follower.events()) as events:
        async for event in events:
            if event is not None:
                context.tell({"event": event.name, "id": event.id, **event.data})
                # A model that is asked may still be away.
                away_since = away_since if event.name in (TYPING, NOTE) else None
            if follower.run is None:
                continue
            run = _with_shown_state(context, follower.run)
            waits = run.behind or run.state
            if waits == SWITCHED_OFF or (patience and _needs_person(waits, decides=decides)):
                break
            if waits == ModelUnavailable.state or away_since is not None:
                now = context.clock.monotonic()
                away_since = now if away_since is None else away_since
                away = run if waits == ModelUnavailable.state else away
                if 0 < patience <= now - away_since:
                    break
    found, turn = await answer_of(context, target.run_id, thread.user_id)
    run = _with_shown_state(context, found)
    if away is not None and away_since is not None and not run.is_over:
        # It is tried again and again, and may be running at this moment.
        run = run._replace(state=away.state, error=away.error)
    shown = {"state": run.shown_state, "ended": run.shown_end, "error": run.error}
    return turn.model_copy(update=shown).model_dump(mode="json")


def _needs_person(waits: str, *, decides: bool) -> bool:
    """Return True for a run that may wait until the next day. `decides`: the follower decides about its calls."""
    return waits == BUDGET_EXCEEDED or (waits == AWAITING and not decides)


def _with_shown_state(context: AdminContext, run: AnsweredRun) -> AnsweredRun:
    """Return the run as a person sees it, see `AdminContext.shown_state`."""
    shown, error = context.shown_state(run.turn, run.error)
    return run._replace(state=shown, error=error) if shown == SWITCHED_OFF else run
