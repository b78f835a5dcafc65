"""The loop of an agent with a model: context, reply, tools, until it has answered.

Every model call and every tool call is a recorded step of the run, and every message has a key within it. A later
attempt takes the same way: recorded steps return their results, stored messages are not stored again, and the loop goes
on where the earlier attempt stopped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, Literal

import msgspec
import structlog

from runtime.agents.context.build import ENTRY_SHARE, BuiltContext, build_measured
from runtime.agents.context.compaction import oldest_entries
from runtime.agents.context.fields import MESSAGE_TOKENS, Budget, Fields
from runtime.agents.context.render import join_paragraphs, waiting_text
from runtime.agents.loop.call import Call, CallOutput, arguments_json, first_ids
from runtime.agents.loop.calls import CallOutputs, Runner
from runtime.agents.loop.guard import RepeatGuard
from runtime.agents.loop.summarizer import Summarizer
from runtime.agents.loop.thread_state import ThreadState
from runtime.agents.loop.tool_finder import ToolFinder
from runtime.agents.loop.transcript import without_calls
from runtime.agents.reply.agent_reply import AgentReply, ToolCalling
from runtime.agents.reply.correction import needs_correction, read_with_corrections
from runtime.agents.reply.reading import read_reply
from runtime.agents.reply.reply_stream import ReplyStream
from runtime.errors import Parked
from runtime.models.budgets.limits import BudgetExceeded
from runtime.models.calls.call import CallOwner
from runtime.models.client import ModelClient
from runtime.models.model import ModelRefused, ModelUnavailable, WindowExceeded
from runtime.models.request import Reply, Request
from runtime.threads import run
from runtime.threads.approvals.approval import Approval
from runtime.threads.content import EventPart, MessageKind, Part, Role, TextPart, ToolCallPart, ToolOutputPart, text_of
from runtime.threads.events import run_event
from runtime.threads.events.deltas import Delta, Publish
from runtime.threads.events.run_event import RunEvent
from runtime.threads.messages import NewMessage
from runtime.threads.run_log import RunLog
from runtime.token_counter import TokenCounter
from runtime.tools.context import VisibleContext
from runtime.tools.model.agent_toolset import DONE, FIND_TOOL

log = structlog.get_logger("symbiont.agent")

RunEnd = Literal["answered", "done", "max_steps", "repeated", "failed"]
"""The end of a run by itself; a person may also have cancelled it."""

Refresh = Callable[[Fields, bool], Awaitable[Fields]]
"""Returns fields with the state and the time as they are now; if its second argument is true, also with those that an
agent can change by its tools."""

_NOT_RUN: Final = (
    "This call was not run, because your reply was cut off or could not be read without guessing. Nothing was changed. "
    "Call it again if you still want it."
)
_REFUSED: Final = CallOutput("error", _NOT_RUN)
_LAST_STEP: Final = (
    "You have used all steps of this turn, and no tools are available any more. Say where you stand: what is done, and "
    "what is left."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """Settings of one agent. `budget`: of a request with its reply. `summarizes`: False leaves the oldest messages out
    of a context that would become too large."""

    max_steps: int
    threshold: float
    budget: Budget
    calling: ToolCalling
    summarizes: bool = True


class Loop:
    """One attempt at one run, after its thread was entered and its input was stored."""

    def __init__(
        self,
        *,
        run_log: RunLog,
        client: ModelClient,
        counter: TokenCounter,
        owner: CallOwner,
        settings: LoopSettings,
        fields: Fields,
        refresh: Refresh,
        finder: ToolFinder,
        runner: Runner,
        reads: frozenset[str],
        state: ThreadState,
        summarizer: Summarizer,
        publisher: Callable[[], Publish | None],
        mark_urgent_said: Callable[[], Awaitable[None]],
    ) -> None:
        """`fields`: without messages, state and time. `refresh`: called at each step that asks the model. `reads`:
        names of the tools that change nothing. `publisher`: returns what is called with the parts of messages; None:
        nobody follows the run now, and the next reply is not streamed. `mark_urgent_said`: called once the model has
        replied to a context with the urgent tasks."""
        self._log = run_log
        self._client = client
        self._counter = counter
        self._owner = owner
        self._settings = settings
        self._fields = fields
        self._refresh = refresh
        self._changed = False
        self._reported_cut_blocks = False
        self._shrinks = settings.summarizes
        """False after a summary that would have made no room."""
        self._runner = runner
        self._reads = reads
        self._state = state
        self._finder = finder
        self._summarizer = summarizer
        self._publisher = publisher
        self._mark_urgent_said: Callable[[], Awaitable[None]] | None = mark_urgent_said
        self._guard = RepeatGuard()

    async def run(self) -> RunEnd:
        """Ask and act until the agent has answered; return how it ended.

        Raises ModelUnavailable, ModelRefused, BudgetExceeded, NoRoom, `Superseded`, `Unavailable`.
        """
        for number in range(1, self._settings.max_steps + 1):
            ended = await self._step(number)
            if ended is not None:
                return ended
        number = self._settings.max_steps + 1
        reading = await self._ask(number, last=True)
        await self._state.put(self._reply_messages(number, reading, ()))
        return "max_steps"

    async def _step(self, number: int) -> RunEnd | None:
        """Do one step. Returns how the run ended, None if it goes on. Raises Parked while a call waits for a person."""
        reading = await self._step_reading(number)
        calls = [
            Call(f"{self._log.run_id[-12:]}_{number}_{index}", call.name, call.arguments, call.extra)
            for index, call in enumerate(reading.calls)
        ]
        # Stored together with the result of the model call before and the intents of the calls after it.
        replied = self._state.put(self._reply_messages(number, reading, calls))
        # An outage may end the calls first; then nobody awaits it.
        replied.add_done_callback(lambda stored: stored.cancelled() or stored.exception())
        acting = [call for call in calls if call.name != DONE.name]
        if self._runner.any_guarded(acting):
            await self._record_reading(number, reading)
        outputs, waits = await self._call(acting, lossless=reading.lossless)
        self._changed |= any(call.name not in self._reads for call in acting)
        self._state.add(await replied)
        if outputs:
            self._state.add(await self._state.put(self._output_messages(number, acting, outputs)))
        if waits:
            raise _parked_error(waits)
        first = first_ids(acting)
        once = [(call, output) for call, output in zip(acting, outputs, strict=True) if first[call.id] == call.id]
        if any(self._is_repeated(*each) for each in once):
            return "repeated"
        refused = not reading.lossless and any(call.name not in self._reads for call in acting)
        if len(acting) < len(calls) and not refused:
            return "done"
        if acting:
            return None
        if reading.messages:
            return "answered"
        # A reply in its form may say nothing on purpose.
        return "done" if reading.problem is None else "failed"

    def _is_repeated(self, call: Call, output: CallOutput) -> bool:
        return self._guard.count_call(call.name, call.arguments, output.text)

    async def _context(self, number: int, *, last: bool) -> BuiltContext:
        """Return the context of a step, after the oldest messages were summarized if it would become too large."""
        self._fields, self._changed = await self._refresh(self._fields, self._changed), False
        built = await self._build(last=last)
        if await self._compact(number, built):
            built = await self._build(last=last)
        self._state.block_rooms = built.block_rooms
        await self._report_cut_blocks(built)
        return built

    async def _report_cut_blocks(self, built: BuiltContext) -> None:
        """Say once in a run, in its answer and in the log, which blocks its contexts do not show whole."""
        if not built.cut_blocks or self._reported_cut_blocks:
            return
        self._reported_cut_blocks = True
        text = "; ".join(built.cut_blocks)
        log.warning("core_memory_shortened", agent=self._owner.agent, thread_id=self._state.thread.id, blocks=text)
        part = EventPart("core_memory_shortened", f"In the context {text}. Shorten it, or allow a larger context.")
        tokens = self._counter.count(part.text) + MESSAGE_TOKENS
        new = NewMessage(role="system", kind="event", parts=(part,), tokens=tokens, key="core_memory_shortened")
        self._state.add(await self._state.put([new]))

    async def _compact(self, number: int, built: BuiltContext) -> bool:
        """Replace the oldest messages of the context by a summary, if it would become too large; True if that was done.
        While the summarizing model is away, and if a summary takes more than the limit of a day, the context leaves
        them out, and nothing is lost."""
        entries, sizes, settings = self._state.entries, built.sizes, self._settings
        old = self._state.absorbable(
            oldest_entries(entries, sizes, wanted=built.wanted, budget=settings.budget, threshold=settings.threshold)
        )
        if not old or not self._shrinks:
            return False
        previous = "" if self._state.summary is None else self._state.summary.text
        before = entries[len(old)].group
        # A later attempt may know more messages at this step: their summary is another one.
        key = f"{number}/summary/{old[0].position}-{before}"
        intent = {"messages": len(old)}

        async def act() -> str:
            return await self._summarizer.summarize(previous, self._state.entries_before(before))

        try:
            text = await self._log.step("summary", intent, act, key=key, repeatable=True)
        except (ModelUnavailable, ModelRefused, BudgetExceeded) as error:
            if isinstance(error, BudgetExceeded) and not error.fits_never:
                # It goes on another day; one that no day allows would end every run of the thread.
                raise
            log.warning("compaction_skipped", thread_id=self._state.thread.id, error=error.line())
            return False
        tokens = self._counter.count(text)
        if not text or tokens >= self._counter.count(previous) + sum(sizes[: len(old)]):
            self._shrinks = False
            return False
        await self._state.absorb(before, text, tokens, await self._summarizer.embed(text))
        if (publish := self._publisher()) is not None:
            counted = f"{len(old)} earlier message{'' if len(old) == 1 else 's'}"
            publish(Delta(run_event.NOTE, 0, {"detail": f"summarized {counted}"}))
        return True

    async def _step_reading(self, number: int) -> AgentReply:
        """Return the reading of the reply of a step: the one that was kept, or that of what the model replies."""
        if not await self._log.has_begun(_reply_key(number)):
            return await self._ask(number)
        done = await self._log.step("reply", {}, lambda: self._ask(number), key=_reply_key(number), repeatable=True)
        return msgspec.convert(done, AgentReply)

    async def _record_reading(self, number: int, reading: AgentReply) -> None:
        """Record how the reply of a step was read, because a person is asked about its calls: read again with the tools
        of a later program, it may mean other ones."""

        async def act() -> AgentReply:
            return reading

        if not await self._log.has_begun(_reply_key(number)):
            await self._log.step("reply", {}, act, key=_reply_key(number), repeatable=True)

    async def _ask(self, number: int, *, last: bool = False) -> AgentReply:
        """Return the reply of the model. `last`: it is asked without tools where it stands."""
        if await self._log.has_ended(model_step(number)):
            return await self._recorded_reading(number, last=last)
        built = await self._context(number, last=last)

        async def once() -> Reply:
            nonlocal built
            try:
                return await self._reply(self._request(built), number, built.tokens)
            except WindowExceeded:
                # The context is built again, once.
                await self._fit(built)
                built = await self._build(last=last)
                return await self._reply(self._request(built), number, built.tokens)

        reply = await self._model_step(model_step(number), once, run_event.typing(self._log.run_id, number))
        await self._note_urgent(built)
        return await self._corrected_reading(number, built, reply)

    async def _fit(self, built: BuiltContext) -> None:
        """Make the next contexts smaller, because the service refused this one as larger than the window: it said that
        the window is a smaller one, or the estimate was too low."""
        budget, window = self._settings.budget, (await self._client.window()).tokens
        if window < budget.window:
            smaller = Budget(window, min(budget.reply, window // 4), "service")
            self._settings = replace(self._settings, budget=smaller)
        else:
            self._counter.raise_ratio(built.tokens, budget.request)

    async def _recorded_reading(self, number: int, *, last: bool) -> AgentReply:
        """Return the reading of a reply that an earlier attempt recorded, without a context and without a summary: the
        messages that follow it are there already."""

        async def missing_reply() -> Reply:
            raise AssertionError(f"the reply of step {number} is not recorded")

        reply = await self._model_step(model_step(number), missing_reply)
        reading = read_reply(reply, () if last else self._finder.tools, self._settings.calling)
        corrected = needs_correction(reading, self._reads)
        if not corrected and (self._mark_urgent_said is None or not self._fields.urgent_tasks):
            return reading
        built = await self._build(last=last)
        await self._note_urgent(built)
        return await self._corrected_reading(number, built, reply) if corrected else reading

    def _request(self, built: BuiltContext) -> Request:
        return Request(
            messages=built.messages,
            tools=built.tools,
            schema=built.schema,
            max_tokens=self._settings.budget.reply,
        )

    async def _note_urgent(self, built: BuiltContext) -> None:
        """Note that the model has read the urgent tasks, if its context has them."""
        if built.says_urgent and self._mark_urgent_said is not None:
            # After the reply is recorded: a later attempt does this again, and nothing is said that no model read.
            await self._mark_urgent_said()
            self._mark_urgent_said = None

    async def _corrected_reading(self, number: int, built: BuiltContext, reply: Reply) -> AgentReply:
        """Return the reading of a reply, corrected where it needs that."""
        corrections = count(1)

        async def correct(request: Request) -> Reply:
            return await self._model_step(f"{number}/correct/{next(corrections)}", lambda: self._reply(request, number))

        reading = await self._read_with_corrections(built, reply, correct)
        request = self._request(built)
        other = self._client.fallbacks_for(request) if reply.finish == "malformed" else None
        if other is not None and needs_correction(reading, self._reads):
            try:
                reply = await self._model_step(f"{number}/fallback", lambda: self._reply(request, number, client=other))
            except (ModelUnavailable, ModelRefused) as error:
                log.warning("fallback_failed", error=error.line())
                return reading
            return await self._read_with_corrections(built, reply, correct)
        return reading

    async def _read_with_corrections(
        self, built: BuiltContext, reply: Reply, correct: Callable[[Request], Awaitable[Reply]]
    ) -> AgentReply:
        return await read_with_corrections(
            self._request(built), reply, built.offered, correct, calling=self._settings.calling, reads=self._reads
        )

    async def _model_step(self, key: str, ask: Callable[[], Awaitable[Reply]], event: RunEvent | None = None) -> Reply:
        """Call the model as a recorded step. Asking it again does no harm."""
        intent = {"model": self._client.block.name}
        return msgspec.convert(await self._log.step("model", intent, ask, key=key, repeatable=True, event=event), Reply)

    async def _reply(self, request: Request, number: int, counted: int = 0, client: ModelClient | None = None) -> Reply:
        """Send a request. `counted`: its tokens as counted, from whose difference to the service's count is learnt.
        `client`: in place of the agent's own."""
        client = client or self._client
        if (publish := self._publisher()) is None:
            reply = await client.reply(request, owner=self._owner, count=self._counter.count)
        else:
            reply = await self._stream_reply(request, number, client, publish)
        if counted and reply.usage.tokens_in:
            self._counter.learn(counted, reply.usage.tokens_in)
        return reply

    async def _stream_reply(self, request: Request, number: int, client: ModelClient, publish: Publish) -> Reply:
        """Send a request, and publish the messages of the reply as they arrive."""
        # The reply begins, again if one was not whole.
        publish(Delta(run_event.DELTA, number, {"step": number, "message": 0, "text": ""}))
        # A correction is in the form of JSON, also of a reply with native calls.
        shown = ReplyStream(
            self._settings.calling if request.schema is None else "json", held=client.unopened_reasoning
        )
        streamed = client.stream(request, owner=self._owner, count=self._counter.count)
        async with aclosing(streamed) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    if shown.has_unopened_reasoning:
                        client.note_unopened_reasoning(part)
                    return part
                for each in shown.feed(part):
                    data = {"step": number, "message": each.index, "text": each.text}
                    publish(Delta(run_event.DELTA, number, data))
        raise ModelUnavailable("the model ended its reply without an end")

    async def _build(self, *, last: bool) -> BuiltContext:
        entries, summary = self._state.entries, self._state.summary
        fields = self._fields._replace(
            tools=self._finder.tools,
            entries=entries,
            summary="" if summary is None else summary.text,
            input=self._state.input,
            tasks=waiting_text(self._state.waiting),
        )
        if last:
            # Services refuse calls in a request that offers no tools.
            fields = fields._replace(
                tools=(),
                find_tool=None,
                tasks=join_paragraphs((fields.tasks, _LAST_STEP)),
                entries=tuple(map(without_calls, entries)),
            )
        built = await build_measured(fields, self._settings.budget, self._counter, self._client)
        most, summary = self._settings.budget.request // ENTRY_SHARE, self._state.summary
        known = summary.id if summary is not None and summary.tokens <= most else None
        self._state.visible = None if built.first is None else VisibleContext(built.first, most, known)
        return built

    async def _call(self, calls: Sequence[Call], *, lossless: bool) -> CallOutputs:
        """Run the calls of a reply, until one waits for a person. If it was not read without loss, only those run that
        change nothing. A call whose output is in the thread has ended."""
        known = {call.id: output for call in calls if (output := self._state.outputs.get(call.id)) is not None}
        refused = {} if lossless else {call.id: _REFUSED for call in calls if call.name not in self._reads}
        settled = {**refused, **known}
        first = first_ids(calls)
        runnable = [call for call in calls if call.id not in settled and first[call.id] == call.id]
        ran = await self._runner.run(runnable)
        done = iter(ran.outputs)
        outputs: list[CallOutput] = []
        for call in calls:
            output = settled.get(call.id) or settled.get(first[call.id]) or next(done, None)
            if output is None:
                break
            settled[call.id] = output
            outputs.append(output)
            if call.name == FIND_TOOL.name:
                self._finder.promote(str(call.arguments.get("query", "")))
        return CallOutputs(outputs, ran.waits)

    def _reply_messages(self, number: int, reading: AgentReply, calls: Sequence[Call]) -> list[NewMessage]:
        messages = []
        if reading.reasoning:
            messages.append(self._new(number, "reasoning", "assistant", "reasoning", (TextPart(reading.reasoning),)))
        if reading.messages:
            texts = tuple(map(TextPart, reading.messages))
            event = run_event.message(self._log.run_id, number, reading.messages)
            messages.append(self._new(number, "message", "assistant", "message", texts, event))
        if calls:
            parts = tuple(
                ToolCallPart(
                    call.id, call.name, arguments_json(call.arguments), self._runner.tool_name(call.name), call.extra
                )
                for call in calls
            )
            run_id, name_of = self._log.run_id, self._runner.tool_name
            events = [
                run_event.tool_started(run_id, number, call.id, name_of(call.name), call.arguments)
                for call in calls
                if call.name != DONE.name
            ]
            messages.append(self._new(number, "calls", "assistant", "tool_call", parts, *events))
        return messages

    def _output_messages(self, number: int, calls: Sequence[Call], outputs: Sequence[CallOutput]) -> list[NewMessage]:
        return [
            self._new(
                number,
                f"output/{index}",
                "tool",
                "tool_output",
                (ToolOutputPart(call.id, call.name, output.text, output.status),),
                run_event.tool_ended(
                    self._log.run_id, number, call.id, self._runner.tool_name(call.name), output.status, output.text
                ),
            )
            # Of a call that waits there is none yet, nor of those after it.
            for index, (call, output) in enumerate(zip(calls, outputs, strict=False))
        ]

    def _new(
        self, number: int, key: str, role: Role, kind: MessageKind, parts: tuple[Part, ...], *events: RunEvent
    ) -> NewMessage:
        tokens = self._counter.count(text_of(parts)) + MESSAGE_TOKENS
        return NewMessage(role=role, kind=kind, parts=parts, tokens=tokens, key=f"{number}/{key}", events=events)


def model_step(number: int) -> str:
    """Return the key of the recorded step that asks the model."""
    return f"{number}/model"


def _reply_key(number: int) -> str:
    return f"{number}/reply"


def _parked_error(waits: Sequence[Approval]) -> Parked:
    """Return the error that ends an attempt until a person has decided, and lets the thread go on meanwhile."""
    tools = list(dict.fromkeys(each.tool for each in waits))
    what = f"a call of {tools[0]} waits" if len(waits) == 1 else f"calls of {', '.join(tools)} wait"
    text, until = f"{what} for the approval of a person", min(each.deadline for each in waits)
    return Parked(text, state=run.AWAITING, until=until, frees_thread=True, hint="`symbi agent pending` shows it")
