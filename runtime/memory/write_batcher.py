"""Group commit: everything that waits for one agent's folder is written together, while the next group gathers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

W = TypeVar("W")
R = TypeVar("R")


class WriteBatcher(Generic[W, R]):
    """Hands what gathered to `write`, one group at a time, for as long as something waits.

    `write` gives one outcome for every work, an exception among them meaning that work alone; what it raises is every
    waiting caller's. A caller that is cancelled does not take its work back.
    """

    def __init__(self, name: str, write: Callable[[Sequence[W]], Awaitable[Sequence[R | Exception]]]) -> None:
        self._name = name
        self._write = write
        self._waiting: list[tuple[W, asyncio.Future[R]]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is being written."""
        return self._task is None

    async def put(self, work: W) -> R:
        """Return the work's outcome once its group is written, or raise what went wrong with it."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=self._name)
        return await future

    async def drain(self) -> None:
        """Return when nothing waits any more."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                await self._settle(group)
        finally:
            self._task = None
            for _, future in self._waiting:
                future.cancel()
            self._waiting = []

    async def _settle(self, group: list[tuple[W, asyncio.Future[R]]]) -> None:
        outcomes: Sequence[R | Exception]
        try:
            outcomes = await self._write([work for work, _ in group])
        except Exception as error:
            outcomes = [error] * len(group)
        except asyncio.CancelledError:
            for _, future in group:
                future.cancel()
            raise
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
