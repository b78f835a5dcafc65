"""The clock for expiry: it does not run ahead with a system clock that was set forward."""

from __future__ import annotations

from typing import Final

import structlog

from runtime.clock import Clock

log = structlog.get_logger("symbiont.retention")

SLACK_SECONDS: Final = 3600.0
"""Seconds of a step forward that is accepted at once: clocks drift, machines sleep."""

DOUBT_SECONDS: Final = 86_400.0
"""Seconds for which a larger step is doubted."""


class SlowClock:
    """Unix milliseconds, for deciding what is old.

    A clock that jumps ahead would make everything old at once, and deleted rows do not come back. So a step forward of
    more than an hour counts only after it has lasted for a day of real time; until then time continues from before it.
    A step back counts at once, since it makes nothing old. At the start only the time of the newest delivery is known,
    so after a long silence a day passes before the silence counts.
    """

    def __init__(self, clock: Clock, newest: float | None = None) -> None:
        """`newest`: Unix seconds of the newest known event; None if there is none."""
        self._clock = clock
        now = clock.now()
        self._base = now if newest is None else min(now, newest)
        self._since = clock.monotonic()
        self._doubted: float | None = None

    def milliseconds(self) -> int:
        """Return the time to use, in Unix milliseconds. Call it regularly: a step of the clock is only noticed by a
        call."""
        wall, real = self._clock.now(), self._clock.monotonic()
        slow = self._base + real - self._since
        if wall > slow + SLACK_SECONDS:
            if self._doubted is None:
                self._doubted = real
                log.warning("clock_ahead", seconds=round(wall - slow))
            if real - self._doubted < DOUBT_SECONDS:
                return int(slow * 1000)
        self._doubted = None
        self._base, self._since = wall, real
        return int(wall * 1000)
