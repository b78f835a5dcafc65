"""The state of a thread in one run: the newest summary and the messages after it."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from msgspec import structs

from runtime.agents.context.fields import Entry
from runtime.agents.loop.call import CallOutput
from runtime.agents.loop.refused_messages import without_refused
from runtime.agents.loop.transcript import Group, calls_without_output, entries_of, group_of
from runtime.threads.content import ToolCallPart, ToolOutputPart
from runtime.threads.messages import Message, Messages, NewMessage
from runtime.threads.run_log import RunLog
from runtime.threads.summaries import NewSummary, Summaries, Summary
from runtime.threads.thread import Thread
from runtime.tools.context import VisibleContext
from runtime.tools.model.agent_toolset import QUOTING

LOADED_TOKENS: Final = 1_000_000
"""Tokens of messages that are loaded at most. What is older than that and not summarized is left out."""

_NOT_SUMMARIZED: Final = "[what was stored; a tool reads it again]"
_POSITION: Final = attrgetter("position")
_GROUP: Final = attrgetter("group")


class ThreadState:
    """The end of a thread, as one attempt reads and extends it.

    An earlier attempt may have stored messages and a summary of this run already. They are loaded with the others, and
    what this attempt stores again is recognized by its position.
    """

    def __init__(
        self, thread: Thread, messages: Messages, summaries: Summaries, run_log: RunLog, *, native: bool
    ) -> None:
        self.thread = thread
        self._messages = messages
        self._summaries = summaries
        self._log = run_log
        self._native = native
        self.summary: Summary | None = None
        self.input: Entry | None = None
        """The message that the run answers."""
        self.entries: tuple[Entry, ...] = ()
        """The messages as entries of a context."""
        self.visible: VisibleContext | None = None
        """The part of the thread in the newest context; None before there is one."""
        self.outputs: Mapping[str, CallOutput] = {}
        """Outputs that earlier attempts of this run have stored, by the ids of the calls."""
        self.waiting: tuple[str, ...] = ()
        """The tools whose calls of other turns wait for a person, each once."""
        self.block_rooms: Mapping[str, int] = {}
        """See `BuiltContext`: of the newest context."""
        self._open_runs: frozenset[str] = frozenset()
        self._open_calls: dict[str, int] = {}
        """The positions of calls whose turns go on, until they have an output."""
        self._loaded: list[Message] = []
        self._absorbed = 0
        self._begins: dict[Group, int] = {}

    async def load(self) -> None:
        """Read the newest summary, and the messages after it. The cost does not depend on the thread's length."""
        self.summary = await self._summaries.latest(self.thread)
        after = -1 if self.summary is None else self.summary.last_position
        loaded = await self._messages.newest_within(self.thread, LOADED_TOKENS, after=after)
        self._loaded = without_refused(loaded, self._log.run_id)
        await self._load_open_calls()
        if self._log.attempt > 1:
            self.outputs = _outputs(await self._messages.of_run(self.thread, self._log.run_id))
        self.entries = tuple(self._entries_of(self._loaded))
        for message in self._loaded:
            self._begins.setdefault(group_of(message), message.position)

    async def _load_open_calls(self) -> None:
        """Find the calls without an output whose turns go on."""
        found = calls_without_output(self._loaded)
        self._open_runs = await open_runs(self._messages, found)
        theirs = {call_id: message for call_id, message in found.items() if message.run_id in self._open_runs}
        self._open_calls = {call_id: message.position for call_id, message in theirs.items()}
        others = (message for message in theirs.values() if message.run_id != self._log.run_id)
        parts = (part for message in others for part in message.parts if isinstance(part, ToolCallPart))
        self.waiting = tuple(dict.fromkeys(part.name for part in parts if part.id in theirs))

    async def begin(self, new: NewMessage) -> None:
        """Store what the run answers, once."""
        stored = await self.put([new])
        self.add(stored)
        self.input = self._entries_of(stored)[0]

    def put(self, new: Sequence[NewMessage]) -> asyncio.Future[list[Message]]:
        """Store messages of this run, together with the steps that are put at the same time. `add` takes the result."""
        return self._messages.put(self.thread, new, run_id=self._log.run_id, attempt=self._log.attempt)

    def add(self, stored: Sequence[Message]) -> None:
        """Add messages that were stored; those that are known already stay as they are."""
        last = self._loaded[-1].position if self._loaded else -1
        if self.summary is not None:
            last = max(last, self.summary.last_position)
        new = [message for message in stored if message.position > last]
        if not new:
            return
        self._loaded += new
        for message in new:
            self._begins.setdefault(group_of(message), message.position)
            for part in message.parts:
                if isinstance(part, ToolOutputPart):
                    self._open_calls.pop(part.call_id, None)
        # The first of them may belong to a group that is there, with an event of another run or turns in between.
        begin = min(self._begins[group_of(message)] for message in new)
        changed = self._loaded[bisect_left(self._loaded, begin, key=_POSITION) :]
        settled = bisect_left(self.entries, begin, key=_GROUP)
        self.entries = (*self.entries[:settled], *self._entries_of(changed))

    def entries_before(self, position: int) -> list[Entry]:
        """Return the messages before a position for a summary, with the calls apart from what was said, and without
        what can be read again where it is stored: it may be deleted there."""
        messages = map(_without_quotes, self._until(position))
        return entries_of(messages, native=True, open_runs=self._open_runs)

    @property
    def message_count(self) -> int:
        """Number of messages in the thread, those of this attempt included."""
        stored = self._loaded[-1].position + 1 if self._loaded else 0
        return self.thread.message_count + max(stored - self.thread.length, 0)

    @property
    def summary_count(self) -> int:
        """Number of summaries of the thread, those of this attempt included."""
        return self.thread.summary_count + self._absorbed

    def absorbable(self, old: Sequence[Entry]) -> Sequence[Entry]:
        """Return those of the oldest entries that a summary may absorb: those before the first call that waits."""
        first = min(self._open_calls.values(), default=None)
        return old if first is None else [entry for entry in old if entry.group < first]

    async def absorb(self, before: int, text: str, tokens: int, embedding: tuple[bytes, str] | None) -> None:
        """Store the summary of the messages before the position `before`, and forget them here. `embedding`: of the
        text, and the model that made it."""
        vector, model = embedding or (None, None)
        old = self._until(before)
        new = NewSummary(
            first_position=old[0].position,
            last_position=old[-1].position,
            message_count=len(old),
            text=text,
            tokens=tokens,
            embedding=vector,
            embedding_model=model,
        )
        self.summary = await self._summaries.append(
            self.thread, new, run_id=self._log.run_id, attempt=self._log.attempt
        )
        self._absorbed += 1
        self._loaded = self._loaded[len(old) :]
        self.entries = tuple(entry for entry in self.entries if entry.group >= before)

    def _entries_of(self, messages: Sequence[Message]) -> list[Entry]:
        return entries_of(messages, native=self._native, open_runs=self._open_runs, own=self._log.run_id)

    def _until(self, position: int) -> list[Message]:
        return self._loaded[: bisect_left(self._loaded, position, key=_POSITION)]


async def open_runs(messages: Messages, calls: Mapping[str, Message]) -> frozenset[str]:
    """Return the runs of these calls without an output that wait for a person. `calls`: by their ids."""
    run_ids = {message.run_id for message in calls.values() if message.run_id is not None}
    return await messages.asking_runs(run_ids) if run_ids else frozenset()


def _without_quotes(message: Message) -> Message:
    parts = tuple(
        structs.replace(part, text=_NOT_SUMMARIZED)
        if isinstance(part, ToolOutputPart) and part.name in QUOTING and part.status == "ok"
        else part
        for part in message.parts
    )
    return structs.replace(message, parts=parts)


def _outputs(messages: Sequence[Message]) -> dict[str, CallOutput]:
    parts = (part for message in messages for part in message.parts)
    return {part.call_id: CallOutput(part.status, part.text) for part in parts if isinstance(part, ToolOutputPart)}
