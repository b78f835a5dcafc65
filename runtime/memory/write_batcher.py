"""Group commit: writes for one agent's folder are done together, while the next batch gathers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

W = TypeVar("W")
R = TypeVar("R")


class WriteBatcher(Generic[W, R]):
    """Passes what gathered to `write`, one batch at a time.

    `write` returns one outcome for each request; an exception among them fails that request alone, and one that is
    raised fails them all. A cancelled caller does not withdraw its request.
    """

    def __init__(self, name: str, write: Callable[[Sequence[W]], Awaitable[Sequence[R | Exception]]]) -> None:
        self._name = name
        self._write = write
        self._waiting: list[tuple[W, asyncio.Future[R]]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """True if nothing waits or is being written."""
        return self._task is None

    async def put(self, work: W) -> R:
        """Return the outcome of the request after its batch is written, or raise its error."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=self._name)
        return await future

    async def drain(self) -> None:
        """Wait until nothing waits any more."""
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
