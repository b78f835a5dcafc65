"""Cached health of a model service, by its last call or a look at it."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable

from runtime.clock import Clock
from runtime.models.model import Model, Problem

REACHABLE_SECONDS = 10.0
"""Seconds for which the result of `Model.problem` is cached."""
KNOWN_SECONDS = 90.0
"""Seconds for which it is returned to callers that must not ask (`Model.known_problem`)."""
LOOK_SECONDS = 2.0
"""Maximum seconds for checking a service."""


class Reachability:
    """The last known state of one service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looking = asyncio.Lock()
        self._seen: tuple[float, Problem | None] | None = None

    @property
    def last_problem(self) -> Problem | None:
        """The problem that was last seen; None if the service answered, or nothing was seen for `KNOWN_SECONDS`."""
        if self._seen is None or self._clock.monotonic() - self._seen[0] >= KNOWN_SECONDS:
            return None
        return self._seen[1]

    async def check(self, look: Callable[[], Awaitable[Problem | None]]) -> Problem | None:
        """Return the problem of the service, None if it answered; `look` asks it if that is not known. Several callers
        ask once."""
        async with self._looking:
            if self._seen is None or self._clock.monotonic() - self._seen[0] >= REACHABLE_SECONDS:
                self.note(await look())
            assert self._seen is not None
            return self._seen[1]

    def note(self, problem: Problem | None) -> None:
        """Record what a call has shown: None if the service answered."""
        self._seen = self._clock.monotonic(), problem


class WatchedModel(Model):
    """A model that can be looked at without a question."""

    _reachability: Reachability

    async def problem(self) -> Problem | None:
        return await self._reachability.check(self._look)

    @property
    def known_problem(self) -> Problem | None:
        return self._reachability.last_problem

    @abstractmethod
    async def _look(self) -> Problem | None:
        """Return the problem of the model; None if it can be asked. Takes `LOOK_SECONDS` at most. Raises nothing."""
