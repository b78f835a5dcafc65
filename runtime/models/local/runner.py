"""Runs a model file: at most one worker process, started for the first request and ended when it is idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from datetime import timedelta
from typing import Any

from dslc.blocks.values.quantity import format_duration
from runtime.models.local.model_file import ModelFile, read_model_file
from runtime.models.local.process import WorkerProcess
from runtime.models.model import ModelUnavailable


class Runner:
    """Starts and ends the worker of one model file. One event loop uses it; requests wait for their turn in order."""

    def __init__(self, file: ModelFile, *, window: int, threads: int, idle: timedelta, timeout: timedelta) -> None:
        """`window`: tokens of a request and its reply. `timeout`: of an answer from its turn on."""
        self._file = file
        self._window = window
        self._threads = threads
        self._idle = idle.total_seconds()
        self._timeout = timeout.total_seconds()
        self._turn = asyncio.Lock()
        self._worker: WorkerProcess | None = None
        self._starting: asyncio.Task[WorkerProcess] | None = None
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def is_loaded(self) -> bool:
        """True if the model is in memory."""
        return self._worker is not None and self._worker.alive

    async def lines(self, body: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield the lines of the answer to a streamed completion. Closing the generator cancels the request. Raises
        ModelUnavailable, ModelRefused, CallFailed."""
        with self._in_use():
            async with self._turn:
                deadline = asyncio.get_running_loop().time() + self._timeout
                async with aclosing(self._lines(body, deadline)) as lines:
                    async for line in lines:
                        yield line

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text; does not wait for requests. Raises ModelUnavailable, ModelRefused,
        CallFailed."""
        with self._in_use():
            try:
                async with asyncio.timeout(self._timeout):
                    worker = await self._running_worker()
                    return await worker.count_tokens(texts)
            except TimeoutError:
                raise self._timeout_error() from None

    async def close(self) -> None:
        """End the worker."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        self._end_worker()
        await asyncio.gather(*self._ending)

    async def _lines(self, body: dict[str, Any], deadline: float) -> AsyncGenerator[bytes, None]:
        # A timeout around the whole loop would also count the time in which the consumer of a line works.
        try:
            async with asyncio.timeout_at(deadline):
                worker = await self._running_worker()
            async with aclosing(worker.lines(body)) as lines:
                while True:
                    async with asyncio.timeout_at(deadline):
                        line = await anext(lines, None)
                    if line is None:
                        return
                    yield line
        except TimeoutError:
            raise self._timeout_error() from None

    async def _running_worker(self) -> WorkerProcess:
        """Return the worker, started if necessary. A caller that is cancelled does not end the start."""
        if self._worker is not None and self._worker.alive:
            return self._worker
        if self._closed:
            raise ModelUnavailable("the model local is closed")
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name=f"model local: load {self._file.name}")
            self._starting.add_done_callback(self._finish_start)
        starting = self._starting
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if not self._closed or not starting.cancelled():
                raise
        raise ModelUnavailable("the model local is closed")

    async def _start(self) -> WorkerProcess:
        if self._worker is not None:
            await self._worker.close()
            self._worker = None
        await asyncio.to_thread(read_model_file, self._file.path)
        try:
            async with asyncio.timeout(self._timeout):
                return await WorkerProcess.start(self._file.path, self._window, self._threads)
        except TimeoutError:
            raise self._timeout_error() from None

    def _finish_start(self, task: asyncio.Task[WorkerProcess]) -> None:
        self._starting = None
        # Reading the exception marks it as seen: nobody may wait any more.
        if not task.cancelled() and task.exception() is None:
            self._worker = task.result()
            self._start_timer()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Keep the worker from being ended as idle."""
        self._users += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield
        finally:
            self._users -= 1
            self._start_timer()

    def _start_timer(self) -> None:
        """Begin to wait for the end of an unused worker."""
        if self._users == 0 and self._worker is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._idle, self._end_worker)

    def _end_worker(self) -> None:
        """End the worker in the background."""
        worker, self._worker = self._worker, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if worker is not None:
            task = asyncio.create_task(worker.close(), name=f"model local: end {self._file.name}")
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _timeout_error(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"the model local did not answer within {format_duration(self._timeout)}",
            hint="raise `timeout`, or use a smaller model",
        )
