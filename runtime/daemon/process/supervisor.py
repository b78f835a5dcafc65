"""Named background tasks: if one dies, the daemon logs its name and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from runtime.errors import SymbiontError

log = structlog.get_logger("symbiont.daemon")


class Supervisor:
    """Tasks that run until the daemon stops."""

    def __init__(self, starts: Callable[[str], bool] = lambda _name: True) -> None:
        """`starts`: returns False for the name of a task that is switched off; raises KeyError for an unknown one."""
        self._starts = starts
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self.failed = False

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Run `work` as the task `name`; if it raises, the daemon stops with a failure. Cancelling the task ends it.
        None, and nothing runs, if the task is switched off."""
        if not self._starts(name):
            work.close()
            return None
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)
        return task

    def stop(self) -> None:
        """Request a stop of the daemon: `wait` returns."""
        self._stop.set()

    def fail(self, reason: str) -> None:
        """Stop with a failure: continuing could do damage."""
        log.critical("stopping", reason=reason)
        self.failed = True
        self._stop.set()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or self._stop.is_set():
            return
        error = task.exception()
        if isinstance(error, SymbiontError):
            self.fail(f"{task.get_name()} died: {error.line()}")
        elif error is not None:
            # Its text may have anything in it.
            log.critical("background_task_died", task=task.get_name(), exc_info=error)
            self.fail(f"{task.get_name()} died: {type(error).__name__}")

    async def wait(self) -> None:
        """Return when a stop was requested or a task died."""
        await self._stop.wait()

    async def cancel(self) -> None:
        """End every task that still runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
