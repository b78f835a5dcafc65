"""Streams of what happens in runs: from the event log, then as it is committed, until the run ends."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from runtime.agents.loop.events import RunEvent as TextEvent
from runtime.agents.services import AgentServices
from runtime.api.rest.event_stream import HEARTBEAT, ServerSentEvent
from runtime.api.rest.problem import Problem
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.transaction_end import Watch
from runtime.errors import NotFound
from runtime.identity.caller import Caller
from runtime.threads.events import told
from runtime.threads.events.log import DONE, ERROR, LAST, EventPage, NewEvents, StoredEvent, changes_of
from runtime.threads.run import BUDGET_EXCEEDED, PARKED, SWITCHED_OFF
from runtime.threads.turns.named_run import named_run
from runtime.tools.agent.events import shown
from runtime.tools.agent.turn_answer import AnsweredRun

HEARTBEAT_SECONDS: Final = 30.0
"""Maximum silence of a stream (the fourth design, section 7.3)."""
LOOK_SECONDS: Final = 2.0
"""Maximum seconds between two looks at the log, at the run and at the caller's token."""
AWAY_SECONDS: Final = 1.0
"""Seconds until a database that is away is asked again."""
AT_A_TIME: Final = 256
"""Maximum number of requests that wait for agents. The listener accepts twice as many connections."""
AT_A_TIME_OF_ONE: Final = 64
"""Maximum number for one token, so that no token blocks the others."""

NOTE: Final = "agent.note"
"""Name of the event that tells a client why there are no events: it may have missed some, or the run waits."""
DELTA: Final = "agent.delta"
MOST_PARTS: Final = 1024
"""Parts of messages that wait for a slow client; more are left out, and the message has everything."""

_ID: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


class Watched(NamedTuple):
    """What a stream shows: one run until it is over, or all runs of a user, or of one agent. `after`: the id of the
    event before the first one; None: only new events. `is_new`: the run is of a message that was sent just now, so it
    is not over without an event, and with one it is."""

    run_id: str | None = None
    thread_id: str | None = None
    agent: str | None = None
    after: int | None = None
    is_new: bool = False


def watch_new_run(result: BaseModel, given: Mapping[str, Any]) -> Watched:
    """Return what a client watches that sends a message. `result`: an `AgentTurn`."""
    return watch_run(result, given)._replace(is_new=True)


def watch_run(result: BaseModel, _given: Mapping[str, Any]) -> Watched:
    """Return what a client of a run watches. `result`: an `AgentTurn`."""
    turn = result.model_dump()
    return Watched(turn["run"], turn["thread"], after=0)


def watch_events(_result: BaseModel, given: Mapping[str, Any]) -> Watched:
    """Return what a client of all runs watches."""
    return Watched(agent=given.get("agent"), after=given.get("after"))


class Asked(NamedTuple):
    """How a client asks for a stream. `last_event_id`: as sent. `deltas`: it asks for the parts of messages too."""

    last_event_id: str | None = None
    deltas: bool = False


class AgentStreams:
    """Makes the streams of one listener."""

    def __init__(self, database: Database, services: AgentServices) -> None:
        self._database = database
        self._services = services
        self._open: Counter[str] = Counter()

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """Have one of the places of requests that wait for agents. Raises Problem."""
        token = caller.token_id or ""
        if self._open.total() >= AT_A_TIME or self._open[token] >= AT_A_TIME_OF_ONE:
            raise Problem(
                "too_many_streams",
                f"at most {AT_A_TIME_OF_ONE} requests of a token may wait for agents at the same time",
                hint="close one, or follow all runs with one request to /v1/agent/events",
                headers=(("Retry-After", "1"),),
            )
        self._open[token] += 1
        try:
            yield
        finally:
            self._open[token] -= 1
            self._open += Counter()  # drops counts of zero

    async def events(
        self, user_id: str, watched: Watched, asked: Asked, is_allowed: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[bytes]:
        """Yield the events as they are sent, the first chunk at once. `is_allowed`: asked now and then; the stream ends
        when it is False. Raises `Unavailable` only before the first chunk."""
        after, note = await self._begin(user_id, watched, asked)
        stream = _Stream(self._database, self._services, user_id, watched, after)
        with self._deltas(watched, asked) as deltas, self._database.changes.watch(changes_of(user_id)) as changed:
            # A client that leaves before the first event can name this one.
            yield HEARTBEAT if watched.run_id is not None else f"id: {after}\n\n".encode()
            if note:
                yield ServerSentEvent(NOTE, stream.of_run({"detail": note})).encode()
            loop = asyncio.get_running_loop()
            looked = loop.time()
            listening = None if deltas is None else loop.create_task(stream.listen(deltas, changed), name="deltas")
            try:
                while await is_allowed():
                    changed.clear()
                    async for event in stream.arrived(changed):
                        yield event.encode()
                    if stream.is_over:
                        return
                    if stream.is_caught_up:
                        with suppress(TimeoutError):
                            async with asyncio.timeout(LOOK_SECONDS):
                                await changed.wait()
                    if loop.time() - looked >= LOOK_SECONDS:
                        # It may wait, or be over, without an event, also while other runs have some.
                        stream.looks_at_run, looked = True, loop.time()
            finally:
                if listening is not None:
                    listening.cancel()
                    await asyncio.wait([listening])

    async def _begin(self, user_id: str, watched: Watched, asked: Asked) -> tuple[int, str]:
        """Return the id after which a stream begins, and what its client is told about it, if anything."""
        if not asked.last_event_id and watched.after is not None:
            return watched.after, ""
        oldest, newest = await self._services.event_log.bounds(user_id)
        if not asked.last_event_id:
            return newest, ""
        known = int(asked.last_event_id) if _ID.fullmatch(asked.last_event_id) else newest + 1
        if known > newest:
            return 0, "the Last-Event-ID is not the id of an event; this begins with the oldest event that is kept"
        if (oldest or newest + 1) > known + 1:
            return known, f"events after {known} are not kept any more; this begins with {oldest or newest + 1}"
        return known, ""

    def _deltas(
        self, watched: Watched, asked: Asked
    ) -> AbstractContextManager[AsyncIterator[TextEvent]] | nullcontext[None]:
        if not asked.deltas or watched.thread_id is None:
            return nullcontext()
        return self._services.events.watch(watched.thread_id)


class _Stream:
    """One stream between two looks at the log."""

    def __init__(self, database: Database, services: AgentServices, user_id: str, watched: Watched, after: int) -> None:
        self.is_over = False
        self.is_caught_up = False
        self.looks_at_run = not watched.is_new
        self._has_read = False
        self._database = database
        self._services = services
        self._user_id = user_id
        self._watched = watched
        self._after = after
        self._step = 0
        self._last = ""
        self._waits: AnsweredRun | None = None
        self._why: str | None = None
        self._note: str | None = None
        self._parts: deque[TextEvent] = deque()

    async def listen(self, deltas: AsyncIterator[TextEvent], changed: asyncio.Event) -> None:
        """Keep the parts of messages until they are sent."""
        async for event in deltas:
            is_part = event["event"] == "text" and event["run_id"] == self._watched.run_id
            if is_part and len(self._parts) < MOST_PARTS:
                self._parts.append(event)
                changed.set()

    async def arrived(self, watch: Watch) -> AsyncGenerator[ServerSentEvent]:
        """Yield what has happened since the last call. `watch`: of the user's events."""
        try:
            page = self._told(watch) or await self._page()
        except Unavailable:
            self.is_caught_up = False
            await asyncio.sleep(AWAY_SECONDS)
            return
        except NotFound:
            self.is_over = True
            problem = Problem("not_found", "the run was deleted with its thread").json()
            yield ServerSentEvent(ERROR, self.of_run({"problem": problem}))
            return
        self.is_caught_up, self._after = page.complete and not self.looks_at_run, page.read_to
        for event in page.events:
            for part in self._parts_before(event):
                yield part
            self._last = event.name
            yield ServerSentEvent(event.name, shown(event), event.number)
        for part in self._parts_to(self._step):
            yield part
        if self._waits is not None:
            # Nobody knows for how long: the client can follow the run again.
            problem = Problem("switched_off", self._waits.error or "the agent is switched off").json()
            yield ServerSentEvent(ERROR, self.of_run({"problem": problem}))
        elif self._note is not None:
            yield ServerSentEvent(NOTE, self.of_run({"detail": self._note}))
            self._note = None
        elif self.is_over and not await self._is_told_to_end():
            yield ServerSentEvent(*await self._end())

    def _told(self, watch: Watch) -> EventPage | None:
        """Return the next events as they were told; None if the log has to be read: at first, after a gap that another
        daemon's events leave, and to see whether the run is over."""
        told = [each for each in watch.told if isinstance(each, NewEvents) and each.last > self._after]
        watch.told.clear()
        if self.looks_at_run or not self._has_read:
            return None
        if not told:
            # With parts of a message the run is one of this process, which tells its events.
            return EventPage([], self._after, complete=True) if self._parts else None
        read_to = self._after
        for each in told:
            if each.first != read_to + 1:
                return None
            read_to = each.last
        watched = self._watched
        events = [event for each in told for event in each.of(watched.run_id, watched.agent)]
        ended = watched.run_id is not None and any(event.name in LAST for event in events)
        # Only the run of a delivery may go on after its end.
        self.is_over, self.looks_at_run = ended and watched.is_new, ended and not watched.is_new
        return EventPage(events, read_to, complete=True)

    async def _page(self) -> EventPage:
        """Return the next events, and note whether the run is over, both as they are at one moment."""
        watched = self._watched
        # Looked at first: what is stored after that is read on, and the last event of a run that is over is there.
        run = await self._run() if watched.run_id is not None and self.looks_at_run else None
        off = run is not None and not run.is_over and run.state == SWITCHED_OFF
        over = run is not None and (run.is_over or off)
        page = await self._services.event_log.page(
            self._user_id, self._after, run_id=watched.run_id, agent=watched.agent
        )
        self._has_read = page.complete
        self.is_over = over and page.complete
        self._waits = run if off and page.complete else None
        if run is not None:
            waits = not run.is_over and (run.state == BUDGET_EXCEEDED or run.behind in PARKED)
            # Said once, also if it is tried meanwhile.
            self._note = run.error if waits and run.error != self._why else None
            self._why = self._note or self._why
        # One that has ended may go on, if its delivery is sent again.
        self.looks_at_run = (over and not page.complete) or any(event.name in LAST for event in page.events)
        return page

    async def _run(self) -> AnsweredRun:
        assert self._watched.run_id is not None
        return AnsweredRun.of(await named_run(self._database, self._watched.run_id, self._user_id))

    async def _is_told_to_end(self) -> bool:
        """Return True if the log has the last event of the run, which the client may have had before."""
        assert self._watched.run_id is not None
        if self._last in LAST:
            return True
        return await self._services.event_log.newest_name(self._user_id, self._watched.run_id) in LAST

    async def _end(self) -> tuple[str, Mapping[str, Any]]:
        """Return the last event of a run that has none in the log, because it is older than that, or was given up."""
        run = await self._run()
        if run.shown_end == "failed":
            return ERROR, self.of_run({"problem": told.run_failed(run.error or "the run ended without an answer")})
        async with self._database.read() as connection:
            totals = await connection.run_sync(
                lambda connection: self._services.totals(connection, user_id=self._user_id, run_id=run.id)
            )
        return DONE, self.of_run({**totals, "ended": run.shown_end})

    def of_run(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return data with the run that is watched, if it is one."""
        return data if self._watched.run_id is None else {"run": self._watched.run_id, **data}

    def _parts_before(self, event: StoredEvent) -> list[ServerSentEvent]:
        """Return the parts of messages that were said before an event: those of its step if it is the message."""
        step = int(event.data.get("step", 0))
        if event.name == told.TYPING:
            self._step = max(self._step, step)
            return self._parts_to(step - 1)
        return self._parts_to(step or self._step)

    def _parts_to(self, step: int) -> list[ServerSentEvent]:
        parts = []
        while self._parts and self._parts[0]["step"] <= step:
            part = self._parts.popleft()
            said = {"step": part["step"], "message": part["message"], "text": part["text"]}
            parts.append(ServerSentEvent(DELTA, self.of_run(said)))
        return parts
