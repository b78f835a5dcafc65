"""Following runs: events of the log, then as they are committed, and the parts of messages as they are written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, Final, NamedTuple

from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.transaction_end import Watch
from runtime.errors import NotFound
from runtime.models.model import ModelUnavailable
from runtime.threads.events.deltas import Delta, Deltas
from runtime.threads.events.log import EventLog, EventPage, NewEvents, StoredEvent, changes_of
from runtime.threads.events.run_event import CONFIRM, DONE, ERROR, LAST, NOTE, PROBLEMS, TYPING, Data, run_problem
from runtime.threads.messages import Messages
from runtime.threads.run import BUDGET_EXCEEDED, PARKED, SWITCHED_OFF
from runtime.threads.turns.named_run import named_run
from runtime.threads.turns.turn import WAITING
from runtime.tools.agent.run_answer import AnsweredRun, run_totals

LOOK_SECONDS: Final = 1.0
"""Maximum seconds between two looks at a run: not every change of its state is an event."""
RETRY_SECONDS: Final = 1.0
"""Seconds until a database that is away is asked again."""
PATIENCE_SECONDS: Final = 10.0
"""Seconds after which a follower is told that a model is away."""
MOST_PARTS: Final = 1024
"""Parts of messages that wait for a slow client; more are left out, and the message has everything."""


class Target(NamedTuple):
    """Runs to follow: one run until it is over, or all runs of a user, or of one agent. `after`: the id of the event
    before the first one; None: only new events. `is_new`: the run is of a message that was sent just now, so it is not
    over without an event, and with one it is."""

    run_id: str | None = None
    agent: str | None = None
    after: int | None = None
    is_new: bool = False


class Event(NamedTuple):
    """An event for a client. `data`: with `run`, `agent` and `thread`, of one without an id with `run` alone."""

    name: str
    data: Data
    id: int | None = None


class Follower:
    """Follows a run, or all runs of a user, for one client."""

    def __init__(
        self, database: Database, clock: Clock, user_id: str, target: Target, deltas: Deltas | None = None
    ) -> None:
        """`deltas`: of this process, for a client that wants the parts of messages of a run."""
        self.run: AnsweredRun | None = None
        """The run as it was last looked at."""
        self.is_over = False
        """True after the last event."""
        self._database = database
        self._log = EventLog(database, clock)
        self._messages = Messages(database, clock)
        self._user_id = user_id
        self._target = target
        self._deltas = deltas
        self._after = target.after
        self._is_caught_up = False
        self._has_read = target.after is None
        self._looks_at_run = target.run_id is not None and not target.is_new
        self._parts: deque[Delta] = deque()
        self._step = 0
        self._last = ""
        self._reason: str | None = None
        self._away_since: float | None = None

    async def events(self, until: float | None = None) -> AsyncGenerator[Event | None]:
        """Yield what happens, and None at the beginning and whenever nothing has happened for a moment. It ends after
        the last event of the run, or at `until`, a time of the event loop. Nothing is lost between the first None and
        the events after it."""
        loop, target = asyncio.get_running_loop(), self._target
        changed_name = changes_of(self._user_id)
        with self._database.changes.watch(changed_name) as changed:
            deltas = None if target.run_id is None else self._deltas
            put = partial(self._put, changed)
            with deltas.follow(target.run_id or "", put) if deltas else nullcontext():
                yield None
                looked, reads = loop.time(), self._after is not None or self._looks_at_run
                while until is None or loop.time() < until:
                    changed.clear()
                    if reads:
                        async for event in self._new_events(changed):
                            yield event
                    if self.is_over:
                        return
                    if self._is_caught_up or not reads:
                        left = LOOK_SECONDS if until is None else min(LOOK_SECONDS, until - loop.time())
                        with suppress(TimeoutError):
                            async with asyncio.timeout(max(left, 0)):
                                await changed.wait()
                    reads = True
                    if target.run_id is not None and loop.time() - looked >= LOOK_SECONDS:
                        # It may wait, or be over, without an event, also while other runs have some.
                        self._looks_at_run, looked = True, loop.time()
                    yield None

    async def _new_events(self, watch: Watch) -> AsyncGenerator[Event]:
        """Yield what has happened since the last call. `watch`: of the user's events."""
        try:
            page = self._published_page(watch) or await self._page()
        except Unavailable:
            self._is_caught_up = False
            await asyncio.sleep(RETRY_SECONDS)
            return
        except NotFound:
            self.is_over = True
            yield self._problem("not_found", 404, "Not found", "the run was deleted with its thread")
            return
        self._is_caught_up, self._after = page.complete and not self._looks_at_run, page.read_to
        for event in page.events:
            for part in self._parts_before(event):
                yield part
            self._last = event.name
            if event.name != TYPING:
                # A model that is asked may still be away.
                self._away_since = None
            yield Event(event.name, event_data(event), event.number)
        for part in self._parts_to(self._step):
            yield part
        run = self.run
        if run is not None and run.state == SWITCHED_OFF and not run.is_over and self.is_over:
            # Nobody knows for how long: the client can follow the run again.
            yield self._problem("switched_off", 503, "This is switched off", run.error or "the agent is switched off")
        elif self.is_over and not await self._has_end():
            yield await self._end()
        elif run is not None and not self.is_over and (reason := self._wait_reason(run)) not in (None, self._reason):
            # Said once, also if it is tried meanwhile.
            self._reason = reason
            yield Event(NOTE, self._of_run({"detail": reason}))

    def _published_page(self, watch: Watch) -> EventPage | None:
        """Return the next events as this process published them; None if the log has to be read: at first, after a gap
        that another daemon's events leave, and to see whether the run is over."""
        new = [each for each in watch.events if isinstance(each, NewEvents) and each.last > (self._after or 0)]
        watch.events.clear()
        if self._looks_at_run or not self._has_read:
            return None
        if not new:
            # With parts of a message the run is one of this process, which publishes its events.
            return EventPage([], self._after or 0, complete=True) if self._parts else None
        read_to = new[0].first - 1 if self._after is None else self._after
        for each in new:
            if each.first != read_to + 1:
                return None
            read_to = each.last
        target = self._target
        events = [event for each in new for event in each.of(target.run_id, target.agent)]
        ended = target.run_id is not None and any(event.name in LAST for event in events)
        # Only the run of a delivery may go on after its end.
        self.is_over = ended and target.is_new
        self._looks_at_run = (ended and not target.is_new) or self._waits_for_person(events)
        return EventPage(events, read_to, complete=True)

    async def _page(self) -> EventPage:
        """Return the next events, and note whether the run is over, both as they are at one moment."""
        target = self._target
        # Looked at first: what is stored after that is read on, and the last event of a run that is over is there.
        looked = target.run_id is not None and self._looks_at_run
        if looked:
            self.run = await self._answered_run()
        page = await self._log.page(self._user_id, self._after or 0, run_id=target.run_id, agent=target.agent)
        self._has_read = page.complete
        over = looked and self.run is not None and (self.run.is_over or self.run.state == SWITCHED_OFF)
        self.is_over = over and page.complete
        # One that has ended may go on, if its delivery is sent again.
        ended = target.run_id is not None and any(event.name in LAST for event in page.events)
        self._looks_at_run = (over and not page.complete) or ended or self._waits_for_person(page.events)
        return page

    def _waits_for_person(self, events: list[StoredEvent]) -> bool:
        """Return True if the run that is followed waits for a person soon."""
        return self._target.run_id is not None and any(event.name == CONFIRM for event in events)

    async def _answered_run(self) -> AnsweredRun:
        assert self._target.run_id is not None
        return AnsweredRun.of(await named_run(self._database, self._target.run_id, self._user_id))

    def _wait_reason(self, run: AnsweredRun) -> str | None:
        """Return what a client is told of a run that waits at a limit, behind another turn, or for its model."""
        if run.state == BUDGET_EXCEEDED or run.behind in PARKED:
            return run.error
        if run.turn == WAITING:
            return "the thread has another turn, and the message waits for its end"
        if ModelUnavailable.state not in (run.state, run.behind):
            return None
        now = asyncio.get_running_loop().time()
        self._away_since = now if self._away_since is None else self._away_since
        if now - self._away_since < PATIENCE_SECONDS:
            return None
        return f"the model is away: {run.error or 'it gave no reason'}"

    async def _has_end(self) -> bool:
        """Return True if the log has the last event of the run, which the client may have had before."""
        assert self._target.run_id is not None
        if self._last in LAST:
            return True
        newest = await self._log.newest(self._user_id, self._target.run_id)
        return newest is not None and newest[1] in LAST

    async def _end(self) -> Event:
        """Return the last event of a run that has none in the log, because it is older than that, or was given up."""
        run = await self._answered_run()
        if run.shown_end == "failed":
            return Event(ERROR, self._of_run({"problem": run_problem(run.error or "the run ended without an answer")}))
        async with self._database.read() as connection:
            totals = await connection.run_sync(run_totals, self._messages, self._user_id, run.id)
        return Event(DONE, self._of_run({**totals, "ended": run.shown_end}))

    def _problem(self, kind: str, status: int, title: str, detail: str) -> Event:
        problem = {"type": f"{PROBLEMS}{kind}", "title": title, "status": status, "detail": detail}
        return Event(ERROR, self._of_run({"problem": problem}))

    def _of_run(self, data: Mapping[str, Any]) -> Data:
        """Return data with the run that is followed, if it is one."""
        return data if self._target.run_id is None else {"run": self._target.run_id, **data}

    def _put(self, changed: asyncio.Event, part: Delta) -> None:
        if len(self._parts) < MOST_PARTS:
            self._parts.append(part)
            changed.set()

    def _parts_before(self, event: StoredEvent) -> Iterator[Event]:
        """Yield the parts of messages that were said before an event: those of its step if it is the message."""
        step = int(event.data.get("step", 0))
        if event.name == TYPING:
            self._step = max(self._step, step)
            return self._parts_to(step - 1)
        return self._parts_to(step or self._step)

    def _parts_to(self, step: int) -> Iterator[Event]:
        while self._parts and self._parts[0].step <= step:
            part = self._parts.popleft()
            yield Event(part.name, self._of_run(part.data))


def event_data(event: StoredEvent) -> dict[str, Any]:
    """Return the data of a stored event as clients get it."""
    return {"run": event.run_id, "agent": event.agent, "thread": event.thread_id, **event.data}
