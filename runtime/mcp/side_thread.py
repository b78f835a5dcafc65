"""A daemon thread for blocking calls that may never return (reading a pipe); it does not delay process exit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class SideThread:
    """Calls one function after another in a thread beside the event loop.

    The interpreter waits for the threads of pools at exit, and would wait forever for a client that neither writes nor
    disconnects.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        Thread(target=self._run, name=name, daemon=True).start()

    async def call(self, function: Callable[..., T], *given: Any) -> T:
        """Return or raise the outcome of `function`. If this is cancelled, the function still runs to its end."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            try:
                result = function(*given)
            except Exception as error:
                self._call_in_loop(loop, _fail, future, error)
            else:
                self._call_in_loop(loop, _finish, future, result)

        self._calls.put(work)
        return await future

    def _run(self) -> None:
        while True:
            self._calls.get()()

    @staticmethod
    def _call_in_loop(loop: asyncio.AbstractEventLoop, *arguments: Any) -> None:
        # The loop may already be closed.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(*arguments)


def _finish(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
