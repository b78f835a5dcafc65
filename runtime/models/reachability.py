"""Why a service does not answer, remembered for some seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from runtime.clock import Clock
from runtime.models.model import Problem

REACHABLE_SECONDS = 10.0
"""Seconds for which the result of `Model.problem` is cached."""
LOOK_SECONDS = 2.0
"""Maximum seconds for checking a service."""


class Reachability:
    """The last known state of one service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looking = asyncio.Lock()
        self._seen: tuple[float, Problem | None] | None = None

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
