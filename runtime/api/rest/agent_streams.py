"""Streams of the events of runs, as server-sent events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from runtime.agents.services import AgentServices
from runtime.api.rest.event_stream import HEARTBEAT, ServerSentEvent
from runtime.api.rest.problem import Problem
from runtime.database.connection import Database
from runtime.identity.caller import Caller
from runtime.threads.events.run_event import LAST, NOTE
from runtime.threads.turns.named_run import named_run
from runtime.tools.agent.follower import Follower, Target
from runtime.tools.agent.run_answer import AnsweredRun

HEARTBEAT_SECONDS: Final = 30.0
"""Maximum silence of a stream (the fourth design, section 7.3)."""
MOST_REQUESTS: Final = 256
"""Maximum number of requests that wait for agents. The listener accepts twice as many connections."""
MOST_REQUESTS_OF_TOKEN: Final = 64
"""Maximum number for one token, so that no token blocks the others."""

_ID: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


def follow_new_run(result: BaseModel, given: Mapping[str, Any]) -> Target:
    """Return the target of a client that sends a message. `result`: an `AgentTurn`."""
    return follow_run(result, given)._replace(is_new=True)


def follow_run(result: BaseModel, _given: Mapping[str, Any]) -> Target:
    """Return the target of a client of a run. `result`: an `AgentTurn`."""
    return Target(result.model_dump()["run"], after=0)


def follow_events(_result: BaseModel, given: Mapping[str, Any]) -> Target:
    """Return the target of a client of all runs."""
    return Target(agent=given.get("agent"), after=given.get("after"))


class StreamOptions(NamedTuple):
    """Options of a stream. `last_event_id`: as sent. `deltas`: with the parts of messages."""

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
        if self._open.total() >= MOST_REQUESTS or self._open[token] >= MOST_REQUESTS_OF_TOKEN:
            raise Problem(
                "too_many_streams",
                f"at most {MOST_REQUESTS_OF_TOKEN} requests of a token may wait for agents at the same time",
                hint="close one, or follow all runs with one request to /v1/agent/events",
                headers=(("Retry-After", "1"),),
            )
        self._open[token] += 1
        try:
            yield
        finally:
            self._open[token] -= 1
            self._open += Counter()  # drops counts of zero

    async def has_last_event(self, user_id: str, target: Target, options: StreamOptions) -> bool:
        """Return True if the client of a run that is over names its last event. Raises `Unavailable`, and NotFound."""
        if target.run_id is None or not _ID.fullmatch(options.last_event_id or ""):
            return False
        newest = await self._services.event_log.newest(user_id, target.run_id)
        if newest is None or newest[1] not in LAST or str(newest[0]) != options.last_event_id:
            return False
        return AnsweredRun.of(await named_run(self._database, target.run_id, user_id)).is_over

    async def events(
        self, user_id: str, target: Target, options: StreamOptions, is_allowed: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[bytes]:
        """Yield the events as they are sent, the first chunk at once. `is_allowed`: asked now and then; the stream ends
        when it is False. Raises `Unavailable` only before the first chunk."""
        after, note = await self._starting_point(user_id, target, options)
        deltas = self._services.deltas if options.deltas else None
        follower = Follower(self._database, self._services.clock, user_id, target._replace(after=after), deltas)
        async with aclosing(follower.events()) as events:
            await anext(events)
            # A client that leaves before the first event can name this one.
            yield HEARTBEAT if target.run_id is not None else f"id: {after}\n\n".encode()
            if note:
                of_run = {} if target.run_id is None else {"run": target.run_id}
                yield ServerSentEvent(NOTE, {**of_run, "detail": note}).encode()
            async for event in events:
                if not await is_allowed():
                    return
                if event is not None:
                    yield ServerSentEvent(*event).encode()

    async def _starting_point(self, user_id: str, target: Target, options: StreamOptions) -> tuple[int, str]:
        """Return the id after which a stream begins, and a note for its client, which may be empty."""
        if not options.last_event_id and target.after is not None:
            return target.after, ""
        oldest, newest = await self._services.event_log.bounds(user_id)
        if not options.last_event_id:
            return newest, ""
        known = int(options.last_event_id) if _ID.fullmatch(options.last_event_id) else newest + 1
        if known > newest:
            return 0, "the Last-Event-ID is not the id of an event; this begins with the oldest event that is kept"
        if (oldest or newest + 1) > known + 1:
            return known, f"events after {known} are not kept any more; this begins with {oldest or newest + 1}"
        return known, ""
