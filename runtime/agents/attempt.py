"""One attempt of an agent with a model at one turn: enter its thread, store the input, run the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import structlog

from dslc.blocks.agent import Agent
from dslc.blocks.values.quantity import format_duration
from runtime.agents.context.build import BuiltContext, build_measured
from runtime.agents.context.fields import MESSAGE_TOKENS, Budget, Fields, Metadata
from runtime.agents.context.render import tools_text, waiting_text
from runtime.agents.fixed_context import (
    budget_of,
    calls_natively,
    fixed_fields,
    time_text,
    with_blocks,
    zone_of,
)
from runtime.agents.loop.call import Call
from runtime.agents.loop.calls import Runner
from runtime.agents.loop.confirmations import Confirmations
from runtime.agents.loop.inputs import input_parts, payload_of
from runtime.agents.loop.loop import Loop, LoopSettings, RunEnd, model_step
from runtime.agents.loop.summarizer import Summarizer
from runtime.agents.loop.thread_state import ThreadState
from runtime.agents.loop.tool_finder import ToolFinder
from runtime.agents.thread_modes import KeyedOptions, subject_path, thread_options
from runtime.agents.turn import AgentContext, Turn
from runtime.clock import utc
from runtime.crypto import Unsealable
from runtime.database.text import is_distinct
from runtime.errors import GiveUp, NotFound
from runtime.memory.core.block import Block as StoredBlock
from runtime.memory.core.block import BlockScope, DeclaredBlock
from runtime.memory.item import rfc3339
from runtime.models.calls.call import CallOwner
from runtime.models.client import ModelClient
from runtime.search.entry import EntryFilter
from runtime.search.errors import IndexFailed
from runtime.switches import COMPACTION, EMBEDDING, SWITCHES, TOOLS, SwitchedOff
from runtime.tasks.urgent import NOTHING, UrgentNotice, UrgentTask, urgent_notice
from runtime.threads.approvals.approval import Origin
from runtime.threads.approvals.asking import Asker
from runtime.threads.content import text_of
from runtime.threads.inputs import ClaimedInput
from runtime.threads.messages import NewMessage
from runtime.threads.run_log import RunLog
from runtime.threads.thread import Thread
from runtime.threads.thread_write import ThreadGone
from runtime.token_counter import TokenCounter
from runtime.tools.agent.access import main_name
from runtime.tools.context import ActingAgent
from runtime.tools.memory.access import data_subject, own_subject
from runtime.tools.model.agent_toolset import DONE, FIND_TOOL, AgentIdentity
from runtime.tools.model.output import result_text
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from runtime.webhooks.request.json_path import compile_path

log = structlog.get_logger("symbiont.agent")

LONGEST_OUTPUT: Final = 1_000_000
"""Maximum characters of a tool's output in the thread."""
LONGEST_EXCERPT: Final = 500
"""Maximum characters of the message that led to a call, as a person sees them who approves it."""
LONGEST_SUBJECT: Final = 1000
"""Maximum characters of the value that names a keyed thread; a longer one is no such value."""


_URGENT: Final = "urgent_tasks"
"""Kind and key of the step that records the notice of a run about urgent tasks."""
_URGENT_SHARE: Final = 16
"""Urgent tasks have at most this part of the request."""


class RunTimedOut(GiveUp):
    """The attempt took too long."""


class _Place(NamedTuple):
    """The thread of a turn. `subject`: of a keyed thread with a memory of its own. `note`: why it is another thread
    than the program says; empty if it is not."""

    thread: Thread
    subject: str | None = None
    note: str = ""


class _Counters(NamedTuple):
    """The counters of tokens: for the agent's model, and for that of its summarizer."""

    own: TokenCounter
    summarizer: TokenCounter


async def _counters(context: AgentContext, client: ModelClient) -> _Counters:
    counters = context.services.counters
    return _Counters(await counters.of(client), await counters.of(context.summarizer or client))


async def answer(turn: Turn, run_log: RunLog, context: AgentContext, client: ModelClient) -> RunEnd:
    """Answer a turn with the agent's model; return how the run ended.

    Raises `ThreadBusy` when another turn has the thread, ModelUnavailable to be tried again, ModelRefused, NoRoom,
    `ThreadGone` and RunTimedOut to end at once, `Superseded`, `Unavailable`. The time between two attempts, in which a
    run waits for its model or its thread, is not limited.
    """
    place = await _place_of(turn, context)
    await context.services.order.enter(turn, place.thread.id)
    deadline = asyncio.timeout(context.seconds)
    try:
        async with deadline:
            return await _Attempt(turn, run_log, context, client, place, await _counters(context, client)).run()
    except TimeoutError:
        if not deadline.expired():
            raise
    raise RunTimedOut(
        f"the run took longer than {format_duration(context.seconds)}", hint="SYMBIONT_RUN_TIMEOUT allows more or less"
    )


class Preview(NamedTuple):
    """A context that is not sent, and its budget. `urgent`: the user's urgent and overdue tasks, if the thread is the
    main one of the main agent; `notice`: what the next run would say of them."""

    context: BuiltContext
    budget: Budget
    urgent: Sequence[UrgentTask]
    notice: UrgentNotice


async def preview(turn: Turn, run_log: RunLog, context: AgentContext, client: ModelClient) -> Preview:
    """Return the context with which the agent would answer in the thread of a turn now, without the turn's input.
    Nothing is stored. Raises NoRoom."""
    place, counters = await _place_of(turn, context), await _counters(context, client)
    return await _Attempt(turn, run_log, context, client, place, counters).preview()


def declared_blocks(agent: Agent) -> list[DeclaredBlock]:
    """Return the blocks of core memory that the program declares for an agent."""
    return [
        DeclaredBlock(
            label=block.name,
            description=block.description,
            value=block.value,
            char_limit=block.char_limit,
            read_only=block.read_only,
            shared=block.shared,
            deliveries=block.deliveries,
        )
        for block in agent.block
    ]


async def _place_of(turn: Turn, context: AgentContext) -> _Place:
    """Return the thread of a turn; it is made if there is none."""
    threads = context.services.threads
    if isinstance(turn, ClaimedInput):
        try:
            thread = await threads.get(turn.thread_id, user_id=turn.user_id)
        except NotFound as error:
            # Another attempt finds it no more.
            raise ThreadGone(str(error)) from None
        return _Place(thread, memory_subject(thread, context.agent))
    if turn.attempt > 1 and (asked := await _asking_thread(turn, context)) is not None:
        return _Place(asked, memory_subject(asked, context.agent))
    mode = context.agent.thread
    if mode.name == "delivery":
        return _Place(await threads.for_delivery(turn.user_id, turn.agent, turn.id))
    if mode.name != "keyed":
        return _Place(await threads.main(turn.user_id, turn.agent))
    json_path = subject_path(context.agent, context.tool_context.program.webhooks.get(turn.webhook))
    assert json_path is not None
    value = await _subject_of(turn, json_path)
    if value is None:
        log.info("delivery_without_subject", webhook=turn.webhook, delivery_id=turn.id, json_path=json_path)
        missing = f"The payload has no value at {json_path} that names a subject"
        note = f"{missing}, so this delivery has a thread of its own."
        return _Place(await threads.for_delivery(turn.user_id, turn.agent, turn.id), note=note)
    thread = await threads.for_subject(turn.user_id, turn.agent, value)
    return _Place(thread, memory_subject(thread, context.agent))


async def _asking_thread(turn: ClaimedDelivery, context: AgentContext) -> Thread | None:
    """Return the thread in which the run of a delivery asked a person; None if it did not, or the thread was deleted.
    Its calls have their outputs there, also if the agent has other threads since."""
    thread_id = await context.services.approvals.thread_of(turn.run_id)
    if thread_id is None:
        return None
    with suppress(NotFound):
        return await context.services.threads.get(thread_id, user_id=turn.user_id)
    return None


def memory_subject(thread: Thread, agent: Agent) -> str | None:
    """Return the subject whose memory an agent has in a thread; None if it is its own."""
    return thread.subject if _separates_memory(agent) else None


def _separates_memory(agent: Agent) -> bool:
    """Return True if the subject of a keyed thread has a memory of its own; also if the agent's threads are not keyed
    any more, because what the subject's memory has is not the agent's."""
    options = thread_options(agent.thread)
    return not isinstance(options, KeyedOptions) or options.separate_memory


def _shares_tables(agent: Agent) -> bool:
    """Return True if runs for one subject may use the SQL tables of all, as the program says."""
    options = thread_options(agent.thread)
    return isinstance(options, KeyedOptions) and options.shared_data


async def _subject_of(delivery: ClaimedDelivery, json_path: str) -> str | None:
    """Return the value of the payload that names a thread, as text; None without one, with several, and for one that is
    stored as others are."""
    found = list(compile_path(json_path)(await payload_of(delivery)))
    if len(found) != 1 or not isinstance(found[0], str | int | float) or isinstance(found[0], bool):
        return None
    text = str(found[0])
    whole = is_distinct(text) and found[0] not in {inf, -inf}
    return text if whole and 0 < len(text.strip()) <= LONGEST_SUBJECT else None


class _Attempt:
    """One attempt, which has its thread."""

    def __init__(
        self,
        turn: Turn,
        run_log: RunLog,
        context: AgentContext,
        client: ModelClient,
        place: _Place,
        counters: _Counters,
    ) -> None:
        thread, services = place.thread, context.services
        hides = place.subject is None and _separates_memory(context.agent) and context.agent.thread.name == "keyed"
        webhook = turn.webhook if isinstance(turn, ClaimedDelivery) else None
        acting = ActingAgent(turn.agent, turn.run_id, thread.id, place.subject, hides, turn.attempt, webhook=webhook)
        bound = (place.subject is not None or hides) and not _shares_tables(context.agent)
        self._turn = turn
        self._log = run_log
        self._agent = context.agent
        self._settings = context.settings
        self._memory = context.memory
        self._services = services
        self._confirm_seconds = context.confirm_seconds
        self._client = client
        self._place = place
        self._zone: ZoneInfo | None = None
        """Of the user, once the fields are made."""
        self._context = replace(context.tool_context, acting=acting)
        self._tools = context.tools.of(
            self._agent.tools or None,
            self._context.caller,
            AgentIdentity(turn.agent, place.subject),
            tables=not bound and self._context.no_tables is None,
        )
        switches = self._context.switches
        self._refused = None if switches.on(TOOLS) else SwitchedOff.by(SWITCHES[TOOLS])
        self._finder = ToolFinder(self._tools.schemas if self._refused is None else (DONE,))
        self._counter = counters.own
        self._native = calls_natively(self._agent, client)
        self._scope = BlockScope(turn.user_id, turn.agent, place.subject)
        self._owner = CallOwner(turn.user_id, turn.agent, thread.id, turn.run_id)
        self._state = ThreadState(thread, services.messages, services.summaries, run_log, native=self._native)
        self._summarizer = Summarizer(
            context.summarizer,
            self._owner,
            counters.summarizer,
            self._agent.summarizer.max_words,
            context.tool_context.recall.embedder if context.tool_context.recall and switches.on(EMBEDDING) else None,
        )

    async def run(self) -> RunEnd:
        """Answer the turn; return how the run ended."""
        blocks = await self._services.blocks.ensure(self._scope, declared_blocks(self._agent))
        await self._state.load()
        message = await self._store_input()
        budget = await budget_of(self._agent, self._client)
        notice = await self._urgent_notice(budget)
        fields = (await self._fields(blocks))._replace(urgent_tasks=notice.text)
        loop = Loop(
            run_log=self._log,
            client=self._client,
            counter=self._counter,
            owner=self._owner,
            settings=LoopSettings(
                max_steps=self._agent.max_steps,
                threshold=self._agent.context.compaction_threshold,
                budget=budget,
                calling="native" if self._native else "json",
                summarizes=self._context.switches.on(COMPACTION),
            ),
            fields=fields,
            refresh=self._refresh_fields,
            finder=self._finder,
            runner=Runner(
                self._tools, self._call, self._log, self._context.caller, self._confirmations(message), self._refused
            ),
            reads=frozenset(name for name, tool in self._tools.items() if tool.read_only) | {DONE.name, FIND_TOOL.name},
            state=self._state,
            summarizer=self._summarizer,
            publisher=lambda: self._services.deltas.publisher(self._turn.run_id),
            mark_urgent_said=lambda: self._services.urgent_tasks.mark_said(self._turn.user_id, notice.task_ids),
        )
        ended = await loop.run()
        await self._services.counters.keep(self._client)
        return ended

    def _origin(self, message: str) -> Origin:
        """Return the origin of the calls of this run. `message`: what it was woken with."""
        thread, turn = self._place.thread, self._turn
        woken = {"webhook": turn.webhook, "delivery_id": turn.id} if isinstance(turn, ClaimedDelivery) else {}
        return Origin(kind=thread.kind, subject=thread.subject, message=message[:LONGEST_EXCERPT], **woken)

    def _confirmations(self, message: str) -> Confirmations:
        turn = self._turn
        by = Asker(turn.user_id, turn.agent, self._place.thread.id, turn.run_id, turn.attempt, self._origin(message))
        caller, seconds = self._context.caller, self._confirm_seconds
        return Confirmations(self._agent.confirm, self._tools, self._services.approvals, self._log, caller, by, seconds)

    async def preview(self) -> Preview:
        """Return the context as it is now."""
        await self._state.load()
        fields = await self._refresh_fields(await self._fields(await self._blocks()), changed=False)
        summary = "" if self._state.summary is None else self._state.summary.text
        waiting = waiting_text(self._state.waiting)
        budget = await budget_of(self._agent, self._client)
        urgent = await self._urgent_tasks()
        notice = self._notice_of(urgent, budget)
        whole = fields._replace(entries=self._state.entries, summary=summary, tasks=waiting, urgent_tasks=notice.text)
        return Preview(await build_measured(whole, budget, self._counter, self._client), budget, urgent, notice)

    async def _urgent_notice(self, budget: Budget) -> UrgentNotice:
        """Return the notice of this run about urgent tasks, the same in each of its contexts and attempts."""
        recorded = await self._log.has_ended(_URGENT)
        if not recorded and await self._log.has_begun(model_step(1)):
            # An earlier attempt had none to say.
            return NOTHING
        notice = NOTHING if recorded else self._notice_of(await self._urgent_tasks(), budget)
        if not recorded and not notice.text:
            return NOTHING

        async def act() -> UrgentNotice:
            return notice

        return UrgentNotice(*await self._log.step(_URGENT, {}, act, key=_URGENT, repeatable=True))

    async def _urgent_tasks(self) -> Sequence[UrgentTask]:
        """Return the urgent and overdue tasks of the user; none outside the main thread of the main agent."""
        if self._place.thread.kind != "main" or main_name(self._context) != self._turn.agent:
            return ()
        try:
            return await self._services.urgent_tasks.of(self._turn.user_id, data_subject(self._context))
        except Unsealable as error:
            log.warning("urgent_tasks_unreadable", user_id=self._turn.user_id, reason=error.line())
            return ()

    def _notice_of(self, found: Sequence[UrgentTask], budget: Budget) -> UrgentNotice:
        return urgent_notice(found, tokens=budget.request // _URGENT_SHARE, count=self._counter.count)

    async def _fields(self, blocks: Sequence[StoredBlock]) -> Fields:
        """Return the fields without messages, state and time."""
        fields = fixed_fields(self._agent, self._client, self._finder.tools, blocks, self._settings, time="")
        alone = self._place.subject is not None
        first = await self._services.threads.is_first_run(self._place.thread, self._log.run_id, alone=alone)
        self._zone = await zone_of(self._services.database, self._turn.user_id, self._settings)
        return fields._replace(first_time=first)

    async def _blocks(self) -> list[StoredBlock]:
        return await self._services.blocks.blocks(self._scope, declared_blocks(self._agent))

    async def _refresh_fields(self, fields: Fields, changed: bool) -> Fields:
        """Return the fields with the state and the time as they are now, and with the blocks of core memory if they may
        have changed."""
        if changed:
            fields = with_blocks(fields, await self._blocks())
            # What a call has stored a moment ago is counted.
            await self._memory.catch_up(self._turn.agent)
        time = time_text(utc(self._services.clock.now()), self._zone)
        return fields._replace(metadata=await self._metadata(fields.metadata.blocks), time=time)

    async def _call(self, call: Call) -> str:
        """Call a tool for the model. Raises SymbiontError."""
        if call.name == FIND_TOOL.name:
            return tools_text(self._finder.matching(str(call.arguments.get("query", "")))) or "no tool matches"
        context = self._context.of_call(call.id, self._state.visible, self._state.block_rooms)
        result = await self._tools.call(call.name, context, call.arguments)
        # The thread keeps it whole; the context cuts what does not fit.
        return result_text(result, LONGEST_OUTPUT)

    async def _store_input(self) -> str:
        """Store what woke the agent as a message of its thread, once; return its text."""
        parts = await input_parts(self._turn, self._place.note)
        text = text_of(parts)
        tokens = self._counter.count(text) + MESSAGE_TOKENS
        new = NewMessage(role="user", parts=parts, tokens=tokens, key="input")
        await self._state.begin(new)
        if isinstance(self._turn, ClaimedInput):
            # It was counted when it was sent.
            self._services.database.keys.texts.remove(self._turn.user_id, len(text.encode()))
        return text

    async def _metadata(self, blocks: int) -> Metadata:
        state, subject = self._state, own_subject(self._context, None)
        own = EntryFilter(agent=self._turn.agent, user=self._turn.user_id, subject=subject, current=True)
        try:
            archival = (await self._memory.indexer.index.stats(own)).entries
        except IndexFailed:
            archival = 0
        compacted = None if state.summary is None else rfc3339(utc(state.summary.created_at // 1000))
        return Metadata(archival, state.message_count, blocks, state.summary_count, compacted)
