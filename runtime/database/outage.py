"""Outages of the database: after a failure writes are refused at once, until a probe succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context

from runtime.database.errors import Unavailable

PROBE_SECONDS = 1.0
"""Seconds between two probes."""


class Outage:
    """The state of one database. `problem` is the reason why it accepts no writes now, or None.

    Without it every caller would wait for its own timeout while a server hangs or another process holds the lock.
    """

    def __init__(self, probe: Callable[[], Awaitable[None]]) -> None:
        """`probe` writes and commits as much as a delivery needs, or raises `Unavailable`. It must not call `check`."""
        self.problem: Unavailable | None = None
        self.on_change: Callable[[str | None], None] = lambda problem: None
        """Called with the reason when an outage begins, and with None when it ends."""
        self._probe = probe
        self._task: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Raise `Unavailable` during an outage."""
        if self.problem is not None:
            raise Unavailable(str(self.problem), hint=self.problem.hint)

    def begin(self, error: Unavailable) -> None:
        """Refuse writes from now on, and probe until the database accepts them."""
        if error.fatal:
            # The process is about to stop.
            return
        if self.problem is None:
            self.problem = error
            self.on_change(str(error))
        self._start()

    def suspect(self) -> None:
        """Probe once after a failure that may concern a single connection, and begin an outage if the probe fails."""
        self._start()

    async def close(self) -> None:
        """Stop probing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _start(self) -> None:
        if self._task is None:
            # A new context: its log lines do not belong to the caller whose write failed.
            self._task = asyncio.create_task(self._probe_until_available(), name="database probe", context=Context())

    async def _probe_until_available(self) -> None:
        try:
            while True:
                if await self._is_available():
                    return
                await asyncio.sleep(PROBE_SECONDS)
        finally:
            self._task = None

    async def _is_available(self) -> bool:
        try:
            await self._probe()
        except Unavailable as error:
            self.begin(error)
            return error.fatal
        except Exception:
            # During an outage only this task probes, so it must not end.
            if self.problem is None:
                raise
            return False
        if self.problem is not None:
            self.problem = None
            self.on_change(None)
        return True
