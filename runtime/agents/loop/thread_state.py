"""What one run knows of its thread: the newest summary and the messages after it."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from runtime.agents.context.fields import Entry
from runtime.agents.loop.transcript import entries_of, group_of
from runtime.threads.messages import Message, Messages, NewMessage
from runtime.threads.run_log import RunLog
from runtime.threads.summaries import NewSummary, Summaries, Summary
from runtime.threads.thread import Thread

LOADED_TOKENS: Final = 1_000_000
"""Tokens of messages that are loaded at most. What is older than that and not summarized is left out."""

_GROUP_MESSAGES: Final = 100
"""Messages before new ones among which those of the same group are looked for."""
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
        """What the run answers."""
        self.entries: tuple[Entry, ...] = ()
        """The messages as entries of a context."""
        self._loaded: list[Message] = []

    async def load(self) -> None:
        """Read the newest summary, and the messages after it. The cost does not depend on the thread's length."""
        self.summary = await self._summaries.latest(self.thread)
        after = -1 if self.summary is None else self.summary.last_position
        self._loaded = await self._messages.newest_within(self.thread, LOADED_TOKENS, after=after)
        self.entries = tuple(entries_of(self._loaded, native=self._native))

    async def begin(self, new: NewMessage) -> None:
        """Store what the run answers, once."""
        stored = await self.put([new])
        self.add(stored)
        self.input = entries_of(stored, native=self._native)[0]

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
        # The first of them may belong to a group that is there, with an event of another run in between.
        groups = {group_of(message) for message in new}
        begin = next(each.position for each in self._loaded[-len(new) - _GROUP_MESSAGES :] if group_of(each) in groups)
        changed = self._loaded[bisect_left(self._loaded, begin, key=_POSITION) :]
        settled = bisect_left(self.entries, begin, key=_GROUP)
        self.entries = (*self.entries[:settled], *entries_of(changed, native=self._native))

    def older(self, position: int) -> list[Entry]:
        """Return the messages before a position for a summary, with the calls apart from what was said."""
        return entries_of(self._until(position), native=True)

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
        self._loaded = self._loaded[len(old) :]
        self.entries = tuple(entry for entry in self.entries if entry.group >= before)

    def _until(self, position: int) -> list[Message]:
        return self._loaded[: bisect_left(self._loaded, position, key=_POSITION)]
