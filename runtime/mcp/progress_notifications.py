"""Progress notifications for a client, and operations in a task of their own that is cancelled only once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from runtime.mcp.backend import Progress

T = TypeVar("T")

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Sends one progress notification: amount done, total, name of the step."""

LOOK_SECONDS: Final = 0.1
"""Minimum seconds between two notifications."""


async def with_progress(work: Callable[[Progress | None], Coroutine[Any, Any, T]], report: Report | None) -> T:
    """Return the result of `work`; its progress goes to `report`. Raises what it raises.

    The SDK cancels a handler again at each of its awaits until it has ended, which would interrupt a rollback; this
    task is cancelled only once.
    """
    steps = _Steps()
    task = asyncio.ensure_future(work(steps.note if report is not None else None))
    try:
        while report is not None and not (await asyncio.wait([task], timeout=LOOK_SECONDS))[0]:
            if (next_step := steps.next_step()) is not None:
                await report(*next_step)
        result = await asyncio.shield(task)
        if report is not None and (next_step := steps.next_step()) is not None:
            await report(*next_step)
        return result
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_retrieve_exception)


def _retrieve_exception(task: asyncio.Future[Any]) -> None:
    """Retrieve the task's exception, so that it is not logged as unhandled."""
    if not task.cancelled():
        task.exception()


class _Steps:
    """Turns several steps, each of which counts from zero, into one number that only grows (MCP, progress)."""

    def __init__(self) -> None:
        self._what = ""
        self._before = 0
        self._done = 0
        self._total = 0
        self._last_sent = -1

    def note(self, what: str, done: int, total: int) -> None:
        """Record the progress of a step."""
        if what != self._what or done < self._done:
            self._before += self._done
        self._what, self._done, self._total = what, done, total

    def next_step(self) -> tuple[float, float | None, str | None] | None:
        """Return the next progress notification, or None if nothing changed."""
        now = self._before + self._done
        if now <= self._last_sent or not self._what:
            return None
        self._last_sent = now
        total = self._before + self._total
        return float(now), float(total) if total >= now else None, self._what
