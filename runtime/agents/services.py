"""Services that agents with a model share in one daemon: the stores of their threads, blocks and settings, and the
watchers of their runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog
from sqlalchemy import Connection

from dslc.blocks.agent import Agent
from dslc.program import Program
from runtime.agents.loop.open_calls import OpenCalls
from runtime.agents.loop.refused_messages import REFUSED
from runtime.agents.token_counters import TokenCounters
from runtime.clock import Clock
from runtime.crypto import KeyForgotten, Unsealable
from runtime.database.connection import Database
from runtime.memory.core.store import BlockStore
from runtime.models.model import RequestRefused
from runtime.tasks.urgent import UrgentTasks
from runtime.threads.agent_settings import AgentSettings
from runtime.threads.approvals.store import Approvals
from runtime.threads.content import EventPart
from runtime.threads.events import run_event
from runtime.threads.events.deltas import Deltas
from runtime.threads.events.log import EventLog
from runtime.threads.events.run_event import RunEvent
from runtime.threads.inputs import Inputs
from runtime.threads.messages import Messages
from runtime.threads.summaries import Summaries
from runtime.threads.thread import Thread, Threads
from runtime.threads.thread_write import Writer
from runtime.threads.turns.ending import EndedRun
from runtime.threads.turns.thread_order import ThreadOrder
from runtime.tools.agent.overrides import OwnAgent, read_own_agent, running_agent
from runtime.tools.agent.run_answer import run_totals

log = structlog.get_logger("symbiont.agent")

_END_TEXTS: Final = {
    "max_steps": "The turn ended because it took too many steps.",
    "repeated": "The turn ended because the same call had the same result again and again.",
    "cancelled": "The turn was cancelled.",
    "failed": "The turn failed:",
}
_COMPLETE: Final = ("answered", "done", "repeated")
"""Ends of runs whose calls have outputs. One with too many steps may have left some, if the agent has fewer steps than
when it began."""
_EMPTY: Final = "the model's replies were empty"
"""Reason of a run that failed without an error."""


class AgentServices:
    """One for each open root. Cheap to create."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.clock = clock
        self.database = database
        self.threads = Threads(database, clock)
        self.messages = Messages(database, clock)
        self.summaries = Summaries(database, clock)
        self.blocks = BlockStore(database, clock)
        self.settings = AgentSettings(database, clock)
        self.order = ThreadOrder(database, clock)
        self.approvals = Approvals(database, clock)
        self.open_calls = OpenCalls(database, self.messages, self.approvals)
        self.inputs = Inputs(database, clock, on_ended=self.note_ends)
        self.urgent_tasks = UrgentTasks(database, clock)
        self.deltas = Deltas()
        self.event_log = EventLog(database, clock)
        self.counters = TokenCounters(database)

    async def own_agent(self, program: Program, agent: Agent, user_id: str) -> OwnAgent:
        """Return an agent of the program as it is for a user, see `read_own_agent`."""
        return await read_own_agent(self.settings, program, agent, user_id)

    async def running_agent(self, program: Program, agent: Agent, user_id: str) -> OwnAgent:
        """Return an agent of the program for a user for whom it runs, see `overrides.running_agent`."""
        return await running_agent(self.settings, program, agent, user_id)

    def on_change(self, changed: Callable[[Thread], None]) -> None:
        """Call `changed` with each thread that has other messages or summaries, or is gone."""
        self.messages.on_change = self.summaries.on_change = self.threads.on_change = changed

    def note_ends(self, connection: Connection, ended: Sequence[EndedRun]) -> None:
        """Append the end of runs to the event log, an output for each call that has none, and a message to the threads
        of those that ended without an answer, in the transaction that ends them. Runs without a thread are a
        recorder's, or did not begin.

        The message has no key: a run that is continued by a redelivery ends again.
        """
        # Also of a run whose calls have outputs: it goes on without a decision about a tool that is gone.
        asked = {run.run_id: run.at for run in ended if run.thread_id is not None or run.ended is not None}
        self.approvals.cancel(connection, asked)
        for run in ended:
            if run.thread_id is None:
                continue
            try:
                self._complete(connection, run, Writer(run.thread_id, run.user_id, run.run_id, None, run.at))
            except (KeyForgotten, Unsealable) as error:
                # Such as of a removed user: the run ends all the same.
                log.warning("thread_not_completed", run_id=run.run_id, reason=error.line())
            if run.ended is not None:
                self.event_log.append(connection, self._last_event(run, run.ended))

    def _complete(self, connection: Connection, run: EndedRun, by: Writer) -> None:
        if run.ended not in _COMPLETE:
            self.open_calls.close(connection, by)
        text = None if run.ended is None else _END_TEXTS.get(run.ended)
        if text is not None:
            detail = f"{text} {run.error or _EMPTY}" if run.ended == "failed" else text
            name = REFUSED if run.cause == RequestRefused.cause else f"run_{run.ended}"
            self.messages.store_event(connection, by, EventPart(name, detail))

    def _last_event(self, run: EndedRun, ended: str) -> RunEvent:
        if ended == "failed":
            return run_event.error(run.run_id, run_event.run_problem(run.error or _EMPTY, run.cause))
        return run_event.done(
            run.run_id, partial(run_totals, messages=self.messages, user_id=run.user_id, run_id=run.run_id), ended
        )
