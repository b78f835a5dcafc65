"""Operations of a conversation: open it, send a message, and follow the run that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Final

from runtime.agents.answer import memory_subject
from runtime.agents.loop.events import RunEvent
from runtime.api.admin.agents.lookup import talking_agent, talking_thread, thread_of, user_of
from runtime.api.admin.parameters import flag, integer, text
from runtime.api.admin.state import AdminContext
from runtime.database.errors import Unavailable
from runtime.errors import SymbiontError
from runtime.models.model import ModelUnavailable
from runtime.switches import AGENTS
from runtime.threads.content import TextPart
from runtime.threads.events.log import changes_of, changes_of_run
from runtime.threads.messages import Message
from runtime.threads.run import AWAITING, BUDGET_EXCEEDED, SWITCHED_OFF
from runtime.threads.thread import Thread
from runtime.threads.turns.named_run import named_run
from runtime.threads.turns.turn import WAITING
from runtime.tools.agent.access import model_of
from runtime.tools.agent.chat import LOOK_SECONDS
from runtime.tools.agent.turn_answer import NOTHING, AnsweredRun, Turn, TurnAnswer, answer_of
from runtime.tools.approvals.decide import waiting_in

AWAY_SECONDS: Final = 10.0
"""Seconds after which a follower is told that a model is away."""
LONGEST_PATIENCE: Final = 86_400
_EARLIER: Final = 50

SCOPES: Final = ("write",)
"""Scopes of an agent that answers a message of the root's own user: it reads and writes what is its user's."""


async def open_conversation(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the thread in which to talk with the agent `agent`, by default the main agent: the main thread
    of the user `user`, with `new` a new conversation, or the thread `thread`.

    `said`: what the user said there before, oldest first. `subject`: whose core memory the agent has there; null for
    its own.
    """
    context.switches.need(AGENTS)
    agent, user_id = talking_agent(context, parameters), await user_of(context, parameters)
    own = await context.services.running_agent(context.program, agent, user_id)
    if flag(parameters, "new"):
        thread = await context.services.threads.conversation(user_id, agent.name)
    else:
        thread = await talking_thread(context, parameters, agent)
    earlier = await context.services.messages.newest(thread, limit=_EARLIER)
    said = [message.text for message in earlier if _is_of_a_person(message)]
    return {
        "agent": agent.name,
        "model": model_of(own.agent),
        "thread": thread.id,
        "kind": thread.kind,
        "subject": memory_subject(thread, agent),
        "messages": thread.message_count,
        "said": said,
    }


async def send(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Send `message` to the agent `agent` in the thread `thread`, by default the main one, and follow its run.

    Tells `sent` with the ids of the run and of the thread, then what happens, see `follow`.
    """
    context.switches.need(AGENTS)
    agent, services = talking_agent(context, parameters), context.services
    if context.cancel_run is None:
        raise no_daemon()
    patience, decides = _patience(parameters), flag(parameters, "decides")
    thread = await talking_thread(context, parameters, agent)
    await services.running_agent(context.program, agent, thread.user_id)
    if context.budgets is not None:
        await context.budgets.check(thread.user_id, agent.name)
    with services.events.watch(thread.id) as events:
        run_id = await services.inputs.send(thread.user_id, agent.name, thread.id, text(parameters, "message"), SCOPES)
        context.on_queued()
        context.tell({"event": "sent", "run": run_id, "thread": thread.id})
        return await _Follower(context, thread, run_id, patience, decides=decides).end(events)


async def follow(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Follow the run `run` of a message until it ends, or its model was away for `patience` seconds (0: however long).
    With a patience it also ends while a call waits for approval, unless the follower `decides`.

    Tells the events of `runtime.agents.loop.events`, `waiting` while the thread has another turn, `away`, `confirm`
    with the calls that wait for approval, as `approvals`, and `parked` at a limit of a budget, for which it is not
    followed any longer if `patience` is given. Returns what the agent said and called, and how the run ended: null if
    it goes on.
    """
    thread, run_id = await thread_of(context, parameters), text(parameters, "run")
    await named_run(context.database, run_id, thread.user_id)
    with context.services.events.watch(thread.id) as events:
        decides = flag(parameters, "decides")
        return await _Follower(context, thread, run_id, _patience(parameters), decides=decides).end(events)


async def cancel(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Cancel the run `run` of the user, on whichever daemon. `state`: `cancelled`, or `running` until it stops."""
    if context.cancel_run is None:
        raise no_daemon()
    run_id = text(parameters, "run")
    return {"run": run_id, "state": await context.cancel_run(run_id, await user_of(context, parameters))}


def no_daemon() -> SymbiontError:
    """Return the error of an operation that needs a daemon."""
    return SymbiontError("no daemon is running, and only a daemon runs agents", hint="start it with `symbi up`")


def _is_of_a_person(message: Message) -> bool:
    """Return False for a delivery, which has a part with its payload."""
    return message.role == "user" and all(isinstance(part, TextPart) for part in message.parts)


def _patience(parameters: Mapping[str, Any]) -> int:
    return integer(parameters, "patience", 0, 0, LONGEST_PATIENCE)


class _Follower:
    """Tells what happens in one run: what this process tells of it as it happens, and what is stored."""

    def __init__(
        self, context: AdminContext, thread: Thread, run_id: str, patience: int, *, decides: bool = False
    ) -> None:
        self._context = context
        self._thread = thread
        self._run_id = run_id
        self._patience = patience
        self._decides = decides
        self._asked: set[str] = set()
        self._live = False
        self._stored = NOTHING
        self._told: set[str] = set()
        self._away_since: float | None = None

    async def end(self, events: AsyncIterator[RunEvent]) -> dict[str, Any]:
        """Follow the run until it has ended or the patience is over; return its answer."""
        passing = asyncio.create_task(self._pass_on(events), name="events of a run")
        try:
            answer = await self._followed()
            # The events that arrived before the end was seen.
            await asyncio.sleep(0)
        finally:
            passing.cancel()
            await asyncio.wait([passing])
        return answer.json()

    async def _followed(self) -> TurnAnswer:
        user_id, changes = self._thread.user_id, self._context.database.changes
        # Of the user's events too: that is what other daemons are looked at for.
        with changes.watch(changes_of(user_id)), changes.watch(changes_of_run(self._run_id)) as changed:
            while True:
                changed.clear()
                with suppress(Unavailable):
                    answer = await answer_of(self._context, self._run_id, user_id)
                    run = self._shown(answer.run)
                    if run.is_over or self._is_left(run):
                        return answer._replace(run=run)
                    self._tell_stored(answer.turn)
                    if run.state == AWAITING:
                        await self._tell_approvals()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await changed.wait()

    async def _pass_on(self, events: AsyncIterator[RunEvent]) -> None:
        async for event in events:
            if event["run_id"] == self._run_id:
                self._live = True
                # A model that is asked may still be away.
                if event["event"] != "reply":
                    self._away_since = None
                self._context.tell(event)

    def _is_left(self, run: AnsweredRun) -> bool:
        """Tell that the run waits; return True if its model was away for too long, or if it waits for a switch, or for
        an approval that nobody here decides about."""
        waits = run.behind or run.state
        if waits == SWITCHED_OFF:
            return True
        if waits == AWAITING and self._patience and not self._decides:
            return True
        if waits == BUDGET_EXCEEDED:
            self._tell_once("parked", error=run.error)
            # It may take until the next day.
            return self._patience > 0
        if run.turn == WAITING:
            self._tell_once("waiting")
        if waits != ModelUnavailable.state and self._away_since is None:
            return False
        now = self._context.clock.monotonic()
        self._away_since = now if self._away_since is None else self._away_since
        seconds = now - self._away_since
        if seconds >= AWAY_SECONDS:
            self._tell_once("away", error=run.error)
        return 0 < self._patience <= seconds

    def _shown(self, run: AnsweredRun) -> AnsweredRun:
        """Return the run as a person sees it, see `AdminContext.shown`."""
        shown, error = self._context.shown(run.turn, run.error)
        return run._replace(state=shown, error=error) if shown == SWITCHED_OFF else run

    def _tell_once(self, event: str, **given: Any) -> None:
        if event not in self._told:
            self._told.add(event)
            self._context.tell({"event": event, **given})

    def _tell_stored(self, turn: Turn) -> None:
        """Tell what is stored of a run of which this process tells nothing, because another daemon runs it."""
        if self._live:
            return
        for event in turn.events(after=self._stored):
            self._away_since = None
            self._context.tell({**event, "run_id": self._run_id})
        self._stored = turn

    async def _tell_approvals(self) -> None:
        """Tell the calls that wait for approval, each once."""
        waiting = await waiting_in(self._context, self._run_id, self._thread.user_id)
        new = [each for each in waiting if each.id not in self._asked]
        if new:
            self._asked |= {each.id for each in new}
            self._context.tell({"event": "confirm", "approvals": [each.model_dump(mode="json") for each in new]})
