"""The loop of an agent with a model: context, reply, tools, until it has answered.

Every model call and every tool call is a recorded step of the run, and every message has a key within it. A later
attempt takes the same way: recorded steps return their results, stored messages are not stored again, and the loop goes
on where the earlier attempt stopped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from typing import Final, Literal

import msgspec
import structlog

from runtime.agents.context.build import BuiltContext, build_measured
from runtime.agents.context.compaction import to_summarize
from runtime.agents.context.fields import MESSAGE_TOKENS, Budget, Fields
from runtime.agents.context.render import joined, waiting_text
from runtime.agents.loop.call import Call, CallOutput, encoded
from runtime.agents.loop.calls import Ran, Runner
from runtime.agents.loop.events import Publish, RunEvent
from runtime.agents.loop.guard import RepeatGuard
from runtime.agents.loop.summarizer import Summarizer
from runtime.agents.loop.thread_state import ThreadState
from runtime.agents.loop.tool_finder import ToolFinder
from runtime.agents.loop.transcript import without_calls
from runtime.agents.reply.agent_reply import AgentReply, ToolCalling
from runtime.agents.reply.correction import read_with_corrections
from runtime.agents.reply.reply_stream import ReplyStream
from runtime.errors import Parked
from runtime.models.budgets.limits import BudgetExceeded
from runtime.models.calls.call import CallOwner
from runtime.models.client import ModelClient
from runtime.models.model import ModelRefused, ModelUnavailable, WindowExceeded
from runtime.models.request import Reply, Request
from runtime.threads import run
from runtime.threads.approvals.approval import Approval
from runtime.threads.content import MessageKind, Part, Role, TextPart, ToolCallPart, ToolOutputPart, text_of
from runtime.threads.events import told
from runtime.threads.events.log import RunEvent as LoggedEvent
from runtime.threads.messages import NewMessage
from runtime.threads.run_log import RunLog
from runtime.tokens import TokenCounter
from runtime.tools.model.agent_toolset import DONE, FIND_TOOL

log = structlog.get_logger("symbiont.agent")

Ended = Literal["answered", "done", "max_steps", "repeated", "failed"]
"""How a run ended by itself; a person may also have cancelled it."""

Refreshed = Callable[[Fields], Awaitable[Fields]]
"""Returns fields with those that an agent can change by its tools as they are now."""

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
        refreshed: Refreshed,
        finder: ToolFinder,
        runner: Runner,
        reads: frozenset[str],
        state: ThreadState,
        summarizer: Summarizer,
        publisher: Callable[[], Publish | None],
        said_urgent: Callable[[], Awaitable[None]],
    ) -> None:
        """`fields`: without messages, as they are at the begin. `refreshed`: called after calls of tools that may have
        changed something. `reads`: names of the tools that change nothing. `publisher`: returns what is called with
        the events of the run; None: nobody watches now, and the next reply is not streamed. `said_urgent`: called once
        the model has replied to a context with the urgent tasks."""
        self._log = run_log
        self._client = client
        self._counter = counter
        self._owner = owner
        self._settings = settings
        self._fields = fields
        self._refreshed = refreshed
        self._changed = False
        self._shrinks = settings.summarizes
        """False after a summary that would have made no room."""
        self._runner = runner
        self._reads = reads
        self._state = state
        self._finder = finder
        self._summarizer = summarizer
        self._publisher = publisher
        self._said_urgent: Callable[[], Awaitable[None]] | None = said_urgent
        self._guard = RepeatGuard()

    async def run(self) -> Ended:
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

    async def _step(self, number: int) -> Ended | None:
        """Do one step. Returns how the run ended, None if it goes on. Raises Parked while a call waits for a person."""
        reading = await self._read(number)
        calls = [
            Call(f"{self._log.run_id[-12:]}_{number}_{index}", call.name, call.arguments)
            for index, call in enumerate(reading.calls)
        ]
        # Stored together with the result of the model call before and the intents of the calls after it.
        replied = self._state.put(self._reply_messages(number, reading, calls))
        # An outage may end the calls first; then nobody awaits it.
        replied.add_done_callback(lambda stored: stored.cancelled() or stored.exception())
        acting = [call for call in calls if call.name != DONE.name]
        if self._runner.asks(acting):
            await self._keep(number, reading)
        outputs, waits = await self._call(acting, lossless=reading.lossless)
        self._changed = any(call.name not in self._reads for call in acting)
        self._state.add(await replied)
        if outputs:
            self._state.add(await self._state.put(self._output_messages(number, acting, outputs)))
        if waits:
            raise _parked(waits)
        if any(map(self._is_repeated, acting, outputs)):
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
        return self._guard.repeated(call.name, call.arguments, output.text)

    async def _context(self, number: int, *, last: bool) -> BuiltContext:
        """Return the context of a step, after the oldest messages were summarized if it would become too large."""
        built = await self._build(last=last)
        return await self._build(last=last) if await self._compact(number, built) else built

    async def _compact(self, number: int, built: BuiltContext) -> bool:
        """Replace the oldest messages of the context by a summary, if it would become too large; True if that was done.
        While the summarizing model is away, and if a summary takes more than the limit of a day, the context leaves
        them out, and nothing is lost."""
        entries, sizes, settings = self._state.entries, built.sizes, self._settings
        old = self._state.absorbable(
            to_summarize(entries, sizes, wanted=built.wanted, budget=settings.budget, threshold=settings.threshold)
        )
        if not old or not self._shrinks:
            return False
        previous = "" if self._state.summary is None else self._state.summary.text
        before = entries[len(old)].group
        # A later attempt may know more messages at this step: their summary is another one.
        key = f"{number}/summary/{old[0].position}-{before}"
        intent = {"messages": len(old)}

        async def act() -> str:
            return await self._summarizer.summarize(previous, self._state.older(before))

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
        self._tell({"event": "compacted", "messages": len(old)})
        return True

    async def _read(self, number: int) -> AgentReply:
        """Return the reading of the reply of a step: the one that was kept, or that of what the model replies."""
        if not await self._log.began(_reply_key(number)):
            return await self._ask(number)
        done = await self._log.step("reply", {}, lambda: self._ask(number), key=_reply_key(number), repeatable=True)
        return msgspec.convert(done, AgentReply)

    async def _keep(self, number: int, reading: AgentReply) -> None:
        """Record how the reply of a step was read, because a person is asked about its calls: read again with the tools
        of a later program, it may mean other ones."""

        async def read() -> AgentReply:
            return reading

        if not await self._log.began(_reply_key(number)):
            await self._log.step("reply", {}, read, key=_reply_key(number), repeatable=True)

    async def _ask(self, number: int, *, last: bool = False) -> AgentReply:
        """Return what the model replies. `last`: it is asked without tools where it stands."""
        built = await self._context(number, last=last)

        def request() -> Request:
            return Request(
                messages=built.messages,
                tools=built.tools,
                schema=built.schema,
                max_tokens=self._settings.budget.reply,
            )

        async def once() -> Reply:
            nonlocal built
            try:
                return await self._reply(request(), number, built.tokens)
            except WindowExceeded:
                # The estimate was too low: the context is built again from larger counts, once.
                self._counter.exceeded(built.tokens, self._settings.budget.request)
                built = await self._build(last=last)
                return await self._reply(request(), number, built.tokens)

        reply = await self._model_step(model_step(number), once, told.typing(self._log.run_id, number))
        if built.says_urgent and self._said_urgent is not None:
            # After the reply is recorded: a later attempt does this again, and nothing is said that no model read.
            await self._said_urgent()
            self._said_urgent = None
        corrections = count(1)

        async def correct(request: Request) -> Reply:
            return await self._model_step(f"{number}/correct/{next(corrections)}", lambda: self._reply(request, number))

        return await read_with_corrections(
            request(), reply, built.offered, correct, calling=self._settings.calling, reads=self._reads
        )

    async def _model_step(
        self, key: str, ask: Callable[[], Awaitable[Reply]], event: LoggedEvent | None = None
    ) -> Reply:
        """Call the model as a recorded step. Asking it again does no harm."""
        intent = {"model": self._client.block.name}
        return msgspec.convert(await self._log.step("model", intent, ask, key=key, repeatable=True, event=event), Reply)

    async def _reply(self, request: Request, number: int, counted: int = 0) -> Reply:
        """Send a request. `counted`: its tokens as counted, from whose difference to the service's count is learnt."""
        if self._publisher() is None:
            reply = await self._client.reply(request, owner=self._owner, count=self._counter.count)
        else:
            reply = await self._streamed(request, number)
        if counted and reply.usage.tokens_in:
            self._counter.learn(counted, reply.usage.tokens_in)
        return reply

    async def _streamed(self, request: Request, number: int) -> Reply:
        """Send a request, and tell the messages of the reply as they arrive."""
        self._tell({"event": "reply"})
        # A correction is in the form of JSON, also of a reply with native calls.
        shown = ReplyStream(self._settings.calling if request.schema is None else "json")
        streamed = self._client.stream(request, owner=self._owner, count=self._counter.count)
        async with aclosing(streamed) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    return part
                for each in shown.feed(part):
                    self._tell({"event": "text", "step": number, "message": each.index, "text": each.text})
        raise ModelUnavailable("the model ended its reply without an end")

    async def _build(self, *, last: bool) -> BuiltContext:
        if self._changed:
            self._fields, self._changed = await self._refreshed(self._fields), False
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
                tasks=joined((fields.tasks, _LAST_STEP)),
                entries=tuple(map(without_calls, entries)),
            )
        return await build_measured(fields, self._settings.budget, self._counter, self._client)

    async def _call(self, calls: Sequence[Call], *, lossless: bool) -> Ran:
        """Run the calls of a reply, until one waits for a person. If it was not read without loss, only those run that
        change nothing. A call whose output is in the thread has ended."""
        known = {call.id: output for call in calls if (output := self._state.outputs.get(call.id)) is not None}
        refused = {} if lossless else {call.id: _REFUSED for call in calls if call.name not in self._reads}
        settled = {**refused, **known}
        runnable = [call for call in calls if call.id not in settled]
        for call in calls:
            if call.id not in refused:
                self._tell({"event": "call", "id": call.id, "name": call.name, "arguments": call.arguments})
        ran = await self._runner.run(runnable)
        done = iter(ran.outputs)
        outputs: list[CallOutput] = []
        for call in calls:
            output = settled.get(call.id) or next(done, None)
            if output is None:
                break
            outputs.append(output)
            self._tell({"event": "output", "id": call.id, "name": call.name, **msgspec.to_builtins(output)})
            if call.name == FIND_TOOL.name:
                self._finder.promote(str(call.arguments.get("query", "")))
        return Ran(outputs, ran.waits)

    def _reply_messages(self, number: int, reading: AgentReply, calls: Sequence[Call]) -> list[NewMessage]:
        messages = []
        if reading.reasoning:
            messages.append(self._new(number, "reasoning", "assistant", "reasoning", (TextPart(reading.reasoning),)))
        if reading.messages:
            said = tuple(map(TextPart, reading.messages))
            event = told.message(self._log.run_id, number, reading.messages)
            messages.append(self._new(number, "message", "assistant", "message", said, event))
        if calls:
            parts = tuple(
                ToolCallPart(call.id, call.name, encoded(call.arguments), self._runner.tool_name(call.name))
                for call in calls
            )
            events = [self._called(number, call, told.STARTED) for call in calls if call.name != DONE.name]
            messages.append(self._new(number, "calls", "assistant", "tool_call", parts, *events))
        return messages

    def _called(self, number: int, call: Call, state: str) -> LoggedEvent:
        return told.tool(self._log.run_id, number, call.id, self._runner.tool_name(call.name), state)

    def _output_messages(self, number: int, calls: Sequence[Call], outputs: Sequence[CallOutput]) -> list[NewMessage]:
        return [
            self._new(
                number,
                f"output/{index}",
                "tool",
                "tool_output",
                (ToolOutputPart(call.id, call.name, output.text, output.status),),
                self._called(number, call, output.status),
            )
            # Of a call that waits there is none yet, nor of those after it.
            for index, (call, output) in enumerate(zip(calls, outputs, strict=False))
        ]

    def _new(
        self, number: int, key: str, role: Role, kind: MessageKind, parts: tuple[Part, ...], *events: LoggedEvent
    ) -> NewMessage:
        tokens = self._counter.count(text_of(parts)) + MESSAGE_TOKENS
        return NewMessage(role=role, kind=kind, parts=parts, tokens=tokens, key=f"{number}/{key}", events=events)

    def _tell(self, event: RunEvent) -> None:
        if (publish := self._publisher()) is not None:
            publish({**event, "run_id": self._log.run_id})


def model_step(number: int) -> str:
    """Return the key of the recorded step that asks the model."""
    return f"{number}/model"


def _reply_key(number: int) -> str:
    return f"{number}/reply"


def _parked(waits: Sequence[Approval]) -> Parked:
    """Return the error that ends an attempt until a person has decided, and lets the thread go on meanwhile."""
    tools = list(dict.fromkeys(each.tool for each in waits))
    what = f"a call of {tools[0]} waits" if len(waits) == 1 else f"calls of {', '.join(tools)} wait"
    text, until = f"{what} for the approval of a person", min(each.deadline for each in waits)
    return Parked(text, state=run.AWAITING, until=until, frees_thread=True, hint="`symbi agent pending` shows it")
