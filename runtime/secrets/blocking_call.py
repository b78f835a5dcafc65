"""Waiting for what blocks, for a bounded time: a Vault that answers a byte a minute, a keyring that shows a dialog."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[[], T], seconds: float) -> T:
    """What `function` returns or raises, run in a thread of its own. Raises TimeoutError after `seconds`.

    A thread that is given up goes on by itself and holds up neither a stop nor anything else: those of
    `asyncio.to_thread` are waited for at the end.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result, failure = None, None
        try:
            result = function()
        except Exception as error:
            failure = error
        # The loop may be closed by the time that this is over.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="secrets", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await answer
