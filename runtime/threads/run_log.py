"""The log in which an agent records its run: each intent first, then the act, then its result."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final

import msgspec

from runtime.clock import Clock, milliseconds
from runtime.crypto import SealedBytes
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.group_commit import Stage
from runtime.database.schema import OWNER, steps
from runtime.database.sealed import Seal
from runtime.errors import GiveUp, Retry
from runtime.threads import stage_ranks
from runtime.threads.events.log import EventLog
from runtime.threads.events.run_event import RunEvent
from runtime.threads.step import (
    DONE,
    FAILED,
    INTENDED,
    RecordedStep,
    StepUncertain,
    StepWrite,
    recorded_steps,
    store_steps,
)

_STEPS = Stage(stage_ranks.STEPS, store_steps)
_UNNAMED: Final = "#"
"""Prefix of the key of a step without one; the number of such steps before it follows."""

Act = Callable[[], Awaitable[object]]


class RunLog:
    """The log of one attempt at one run.

    A later attempt repeats the same steps: completed ones return their recorded results, the others are executed. A
    step is the same if it has the same `key`. Steps without a key are numbered in the order of their calls, so steps
    that run at the same time need keys unless that order is always the same.
    """

    def __init__(self, database: Database, clock: Clock, run_id: str, attempt: int, *, user_id: str = OWNER) -> None:
        """`attempt`: from 1, as in the run's row; writes of any other attempt are rejected."""
        self.run_id = run_id
        self.attempt = attempt
        self._database = database
        self._clock = clock
        self._user_id = user_id
        self._unnamed = count()
        self._named: set[str] = set()
        self._positions = count()
        self._earlier: dict[str, RecordedStep] | None = None if attempt > 1 else {}
        self._reading = asyncio.Lock()
        self._ends: deque[tuple[StepWrite, asyncio.Future[None] | None]] = deque()
        self._intent = Seal(database.keys, steps.c.intent)
        self._result = Seal(database.keys, steps.c.result)
        self._events = EventLog(database, clock)

    async def step(
        self,
        kind: str,
        intent: object,
        act: Act,
        *,
        key: str | None = None,
        repeatable: bool = False,
        event: RunEvent | None = None,
    ) -> Any:
        """Execute `act` once: record the intent, execute it, record its result and return it.

        `intent` and the result are JSON values, stored encrypted; the result is returned as decoded JSON. `key`:
        identifies the step among those of its run, the same on every attempt, such as the id of a tool call; it may not
        be empty or begin with `#`. `repeatable`: executing it twice does no harm, so a step that may have happened is
        executed again, unless the attempt that began it said otherwise. An act that raises `Retry` or `GiveUp` did not
        happen. `event`: appended to the event log with the intent.

        Raises what `act` raises; `StepUncertain` if it may have happened and cannot be repeated; `Superseded` if
        another attempt has begun; `Unavailable` if the intent could not be recorded, and then it was not executed.
        ValueError for a key that another step of this run has. The result may not be stored yet on return, see
        `settle`.
        """
        name = self._name(key)  # before the first await: steps that are called at the same time keep their order
        earlier = (await self._earlier_steps()).get(name)
        position = next(self._positions) if earlier is None else earlier.position
        if earlier is not None:
            self._check(position, kind, earlier, repeatable=repeatable)
            if earlier.state == DONE and earlier.result is not None:
                opened = self._result.open(earlier.result, row=self._row(position), user_id=self._user_id)
                return msgspec.json.decode(opened)
        started = milliseconds(self._clock)
        sealed = self._intent.close(msgspec.json.encode(intent), row=self._row(position), user_id=self._user_id)

        def write(state: str, finished_at: int | None = None, result: SealedBytes | None = None) -> StepWrite:
            again = earlier is not None
            place = (self.run_id, self.attempt, position, name, state, self._user_id, kind, repeatable)
            tell = None if event is None else partial(self._events.append, event=event)
            return StepWrite(*place, started, finished_at, None if finished_at else sealed, result, again, tell)

        try:
            await self._database.commits.put(_STEPS, write(INTENDED))
        except Unavailable:
            # The intent may have been stored nevertheless, but the act did not happen.
            self._end(write(FAILED, milliseconds(self._clock)))
            raise
        try:
            encoded = msgspec.json.encode(await act())
        except (Retry, GiveUp):
            self._end(write(FAILED, milliseconds(self._clock)))
            raise
        result = self._result.close(encoded, row=self._row(position), user_id=self._user_id)
        self._end(write(DONE, milliseconds(self._clock), result))
        return msgspec.json.decode(encoded)

    async def has_begun(self, key: str) -> bool:
        """Return True if an earlier attempt began the step with this key, and it may have happened. Raises
        `Unavailable`."""
        earlier = (await self._earlier_steps()).get(key)
        return earlier is not None and earlier.state != FAILED

    async def has_ended(self, key: str) -> bool:
        """Return True if an earlier attempt recorded the result of the step with this key. Raises `Unavailable`."""
        earlier = (await self._earlier_steps()).get(key)
        return earlier is not None and earlier.state == DONE and earlier.result is not None

    def _name(self, key: str | None) -> str:
        if key is None:
            return f"{_UNNAMED}{next(self._unnamed)}"
        if not key or key.startswith(_UNNAMED):
            raise ValueError(f"the key of a step cannot be empty or begin with {_UNNAMED}: {key!r}")
        if key in self._named:
            raise ValueError(f"two steps of one run have the key {key!r}")
        self._named.add(key)
        return key

    async def _earlier_steps(self) -> dict[str, RecordedStep]:
        """Return the steps that earlier attempts recorded, by key; positions of new steps follow theirs."""
        async with self._reading:
            if self._earlier is None:
                found = await recorded_steps(self._database, self.run_id)
                self._positions = count(1 + max((step.position for step in found.values()), default=-1))
                self._earlier = found
            return self._earlier

    async def settle(self) -> None:
        """Wait until the ends of all steps so far are committed; one that could not be stored is stored again.

        A run that will be tried again needs them. Raises `Superseded`, and `Unavailable`, after which it can be called
        again.
        """
        while self._ends:
            write, future = self._ends[0]
            try:
                await (self._database.commits.put(_STEPS, write) if future is None or future.cancelled() else future)
            except Unavailable:
                self._ends[0] = (write, None)
                raise
            self._ends.popleft()

    def _end(self, write: StepWrite) -> None:
        """Store the end of a step without waiting: later writes of this run are stored after it, usually in the same
        transaction."""
        while self._ends and _is_stored(self._ends[0][1]):
            self._ends.popleft()
        future: asyncio.Future[None] | None = None
        with suppress(Unavailable):
            future = self._database.commits.put(_STEPS, write)
            future.add_done_callback(_ignore_failure)
        self._ends.append((write, future))

    def _check(self, position: int, kind: str, earlier: RecordedStep, *, repeatable: bool) -> None:
        if earlier.kind != kind:
            raise GiveUp(
                f"step {position + 1} was {earlier.kind!r} in an earlier try and is {kind!r} now",
                hint="the agent was changed in between; redeliver the delivery as a new run",
            )
        if earlier.state == INTENDED and not (repeatable and earlier.repeatable):
            raise StepUncertain(
                f"step {position + 1} ({kind}) was begun and may have happened",
                hint="check whether it did; if not, redeliver the delivery as a new run",
            )

    def _row(self, position: int) -> str:
        return f"{self.run_id}/{position}"


def _is_stored(future: asyncio.Future[None] | None) -> bool:
    return future is not None and future.done() and not future.cancelled() and future.exception() is None


def _ignore_failure(future: asyncio.Future[None]) -> None:
    """Mark the failure of a write as seen: a run that ends at once does not wait for its last write."""
    if not future.cancelled():
        future.exception()
