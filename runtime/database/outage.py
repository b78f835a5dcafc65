"""Whether the database takes writes: after a failure everybody is refused at once until a probe succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context

from runtime.database.errors import Unavailable

PROBE_SECONDS = 1.0
"""How long to wait between two probes."""


class Outage:
    """One per database. `problem` is why it takes no writes at this moment, or None.

    Without it every caller would wait for its own time-out while a server hangs or another process holds the lock.
    """

    def __init__(self, probe: Callable[[], Awaitable[None]]) -> None:
        """`probe` writes and commits as much as a delivery needs, or raises `Unavailable`. It must not ask `check`."""
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
        """The database takes no writes: refuse them from now on, and probe until it does."""
        if error.fatal:
            # The process is about to stop.
            return
        if self.problem is None:
            self.problem = error
            self.on_change(str(error))
        self._start()

    def suspect(self) -> None:
        """Something failed that may have been one connection only: probe once, and begin an outage if that fails."""
        self._start()

    async def close(self) -> None:
        """End the probing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _start(self) -> None:
        if self._task is None:
            # What it logs is not about the one whose write happened to fail.
            self._task = asyncio.create_task(self._until_well(), name="database probe", context=Context())

    async def _until_well(self) -> None:
        try:
            while True:
                if await self._is_well():
                    return
                await asyncio.sleep(PROBE_SECONDS)
        finally:
            self._task = None

    async def _is_well(self) -> bool:
        try:
            await self._probe()
        except Unavailable as error:
            self.begin(error)
            return error.fatal
        except Exception:
            # Nobody else would look again while all are refused.
            if self.problem is None:
                raise
            return False
        if self.problem is not None:
            self.problem = None
            self.on_change(None)
        return True
