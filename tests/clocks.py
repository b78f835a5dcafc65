"""Time for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush

START = 1_771_065_000.0
"""2026-02-14T10:30:00Z"""


class ManualClock:
    """A clock that does not move until `advance`; a task that sleeps on it wakes when its time is reached."""

    def __init__(self, now: float = START) -> None:
        self._now = now
        self._monotonic = 1000.0
        self._order = 0
        self._sleeping: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._order += 1
        heappush(self._sleeping, (self._monotonic + seconds, self._order, woken))
        await woken

    @property
    def sleepers(self) -> int:
        """Return the number of tasks that sleep now."""
        return sum(not woken.done() for _, _, woken in self._sleeping)

    def advance(self, seconds: float) -> None:
        """Advance both kinds of time by `seconds`."""
        self._now += seconds
        self._monotonic += seconds
        while self._sleeping and self._sleeping[0][0] <= self._monotonic:
            _, _, woken = heappop(self._sleeping)
            if not woken.done():
                woken.set_result(None)

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back when negative, as an administrator does; no sleeping task wakes."""
        self._now += seconds


async def until(happened: Callable[[], bool], *, patience: float = 60.0) -> None:
    """Run other tasks until `happened`; fail after `patience` seconds of real time."""
    async with asyncio.timeout(patience):
        while not happened():
            await asyncio.sleep(0.001)
