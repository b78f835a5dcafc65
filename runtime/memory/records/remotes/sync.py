"""Sends records to the remote, one after the other, in a task of its own, so that no write waits for it.

A record that cannot be sent now is tried again later, and the others wait; one that can never be sent is reported and
skipped; if the options are wrong (address, key), nothing is sent until they change or the process restarts. Before
sending, the record's own status is read, so that none is knowingly sent twice; after a crash between the answer and the
status, the same idempotency key is sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import structlog

from runtime.clock import Clock
from runtime.memory.errors import FsyncFailed, StoreError
from runtime.memory.event_wait import happens
from runtime.memory.records.files.outbox import Note
from runtime.memory.records.operations import Mark
from runtime.memory.records.remotes.remote import NotSent, Remote

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds until a record is tried again: the first time, and at most."""
PATIENCE = 2.0
"""Seconds until records of an earlier process are sent."""
LONGEST_ERROR = 300
"""Characters of a stored error."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OutgoingRecord:
    """A record to send. `fields` is None if there is nothing to send: it was sent already, or is `damaged`."""

    fields: dict[str, Any] | None
    damaged: str | None = None


class RemoteSync:
    """The queue of one store, and the task that empties it."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        claim: Callable[[Note], AbstractAsyncContextManager[None]],
        read: Callable[[Note], Awaitable[OutgoingRecord | None]],
        mark: Callable[[Mark], Awaitable[None]],
    ) -> None:
        """`claim` keeps other processes from sending at the same time, or raises StoreBusy; `read` returns a note's
        record, None if the note is gone; `mark` writes down the result."""
        self._name = name
        self._clock = clock
        self._claim = claim
        self._read = read
        self._mark = mark
        self._queue: list[Note] = []
        self._unsent: set[Note] = set()
        self._unmarked: dict[Note, Mark] = {}  # results that could not be written to disk yet
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._begin = asyncio.Event()  # records left by other processes wait a moment: a command may only read
        self._tried = asyncio.Event()
        self._untried: set[Note] = set()
        self._trying = self._closing = False
        self.remote: Remote | None = None
        self.fault: str | None = None
        """Reason why the first record could not be sent; None if it was not tried or nothing waits."""
        self.stopped = False
        """True if nothing is sent until the options change."""

    @property
    def waiting(self) -> int:
        """Return the number of records still to be sent, as far as this process knows."""
        return len(self._unsent)

    @property
    def _over(self) -> bool:
        return self.stopped or self._closing

    def use(self, remote: Remote | None) -> None:
        """Send to this remote from now on, or to none."""
        self.remote, self.fault, self.stopped = remote, None, False
        self._start_task(at_once=bool(self._queue))

    def add(self, notes: Sequence[Note], *, left: bool = False) -> None:
        """Queue records to be sent, now or when there is a remote. `left`: by an earlier process."""
        for note in notes:
            if note not in self._unsent:
                self._unsent.add(note)
                heappush(self._queue, note)
                if not left:
                    self._untried.add(note)
        self._start_task(at_once=bool(notes) and not left)

    async def settle(self, seconds: float) -> None:
        """Wait until all are sent or one cannot be, at most this many seconds."""
        self._start_task(at_once=True)
        await self._wait_until_tried(self._unsent, seconds)

    async def close(self, seconds: float) -> None:
        """Send untried records of this process, finish the current one, and stop: at most this many seconds each. The
        rest is sent after the store is opened next time."""
        await self._wait_until_tried(self._untried, seconds)
        self._closing = True
        task, self._task = self._task, None
        if task is not None:
            if self._trying:
                await asyncio.wait([task], timeout=seconds)
            task.cancel()
            await asyncio.wait([task])

    async def _wait_until_tried(self, notes: Collection[Note], seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while notes and self.remote is not None and self.fault is None and self._task is not None:
                    self._tried.clear()
                    await self._tried.wait()

    def _start_task(self, *, at_once: bool) -> None:
        self._wake.set()
        if at_once:
            self._begin.set()
        if self._task is None and self._queue and self.remote is not None and not self._over:
            self._task = asyncio.create_task(self._run(), name=f"sending records of {self._name}")
            self._task.add_done_callback(self._on_task_end)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._task = None
        self._tried.set()
        if not task.cancelled() and task.exception() is not None:
            self.fault, self.stopped = f"sending ended: {task.exception()!r}", True
            _log.error("memory_sending_ended", store=self._name, error=str(task.exception()))
        elif not task.cancelled():
            self._start_task(at_once=False)

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        await self._pause(PATIENCE, self._begin)
        while self._queue and self.remote is not None and not self._over:
            self._wake.clear()
            self._trying = True
            try:
                wait = await self._try(self._queue[0], self.remote)
            finally:
                self._trying = False
                self._tried.set()
            if wait is None:
                pause = FIRST_PAUSE
            elif not self._over:
                await self._pause(max(wait, pause))
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _pause(self, seconds: float, enough: asyncio.Event | None = None) -> None:
        """Wait, until the remote is changed or `enough` is set."""
        before, until = self.remote, self._clock.monotonic() + seconds
        while self.remote is before and not (enough is not None and enough.is_set()):
            left = until - self._clock.monotonic()
            if left <= 0:
                return
            self._wake.clear()
            await happens(self._wake, left, self._clock)

    async def _try(self, note: Note, remote: Remote) -> float | None:
        """Send one record; None if it is finished, else the seconds to wait at least."""
        try:
            async with self._claim(note):
                return await self._handle(note, remote)
        except FsyncFailed:
            raise
        except StoreError as error:
            self._note_failure(note, error.line())
            return FIRST_PAUSE

    async def _handle(self, note: Note, remote: Remote) -> float | None:
        if note in self._unmarked:
            await self._mark(self._unmarked[note])
            del self._unmarked[note]
            self._finish(note)
            return None
        outgoing = await self._read(note)
        if outgoing is None:
            self._finish(note)
            return None
        if outgoing.fields is not None:
            return await self._send(note, outgoing.fields, remote)
        error = None if outgoing.damaged is None else f"it is damaged and was not sent: {outgoing.damaged}"
        await self._mark(Mark(note, sent=error is None, error=error, done=True, facts={}))
        self._finish(note)
        return None

    async def _send(self, note: Note, fields: dict[str, Any], remote: Remote) -> float | None:
        facts: dict[str, Any] = {"remote": remote.name}
        try:
            await remote.send(fields)
        except NotSent as failure:
            error = str(failure)[:LONGEST_ERROR]
            done = failure.outlook == "never"
            if failure.status is not None:
                facts["status"] = failure.status
            await self._mark(Mark(note, sent=False, error=error, done=done, facts=facts))
            if done:
                _log.warning("memory_record_not_sent", record=note.record, reason=error)
                self._finish(note)
                return None
            self._note_failure(note, error)
            # Only with the present options: they may have changed during the attempt.
            self.stopped = failure.outlook == "changed" and self.remote is remote
            return failure.retry_after or 0.0
        sent = Mark(note, sent=True, error=None, done=True, facts=facts)
        self._unmarked[note] = sent
        await self._mark(sent)
        del self._unmarked[note]
        self._finish(note)
        return None

    def _note_failure(self, note: Note, error: str) -> None:
        if self.fault != error:
            _log.warning("memory_record_not_sent_yet", record=note.record, reason=error)
        self.fault = error

    def _finish(self, note: Note) -> None:
        self.fault = None
        self._unsent.discard(note)
        self._untried.discard(note)
        if self._queue and self._queue[0] == note:
            heappop(self._queue)
        elif note in self._queue:
            self._queue.remove(note)
