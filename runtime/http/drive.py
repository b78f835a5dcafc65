"""Runs a handler without a task of its own.

Most handlers wait once, for a commit, or not at all. A task costs several passes through the event loop for each
request, about as much as reading its head; a callback of the future that is waited for does as well. What needs a
task (`asyncio.timeout`, task groups) is awaited as one: `await asyncio.create_task(…)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


def drive(coroutine: Coroutine[Any, Any, Result], done: Callable[[Result | BaseException], None]) -> None:
    """Run `coroutine` up to its first wait, and from then on whenever what it waits for is there. `done` is told what
    it returned or raised, once; before `drive` returns when it waits for nothing."""
    running = _Running(coroutine, done)
    running.context.run(running.step)


class _Running(Generic[Result]):
    __slots__ = ("context", "coroutine", "done")

    def __init__(self, coroutine: Coroutine[Any, Any, Result], done: Callable[[Result | BaseException], None]) -> None:
        self.coroutine = coroutine
        self.done = done
        self.context = copy_context()

    def step(self, _awaited: object = None) -> None:
        """Go on to the next wait, or to the end. How a coroutine asks to wait is asyncio's: it yields the future,
        which says its own result when the coroutine goes on, or None to give way once."""
        try:
            awaited = self.coroutine.send(None)
        except StopIteration as end:
            self.done(end.value)
        except BaseException as error:
            self.done(error)
            if not isinstance(error, Exception | asyncio.CancelledError):
                raise
        else:
            if awaited is None:
                asyncio.get_running_loop().call_soon(self.step, context=self.context)
            else:
                awaited._asyncio_future_blocking = False
                awaited.add_done_callback(self.step, context=self.context)
