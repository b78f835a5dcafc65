"""Bounded waiting for blocking calls, such as to a slow Vault or a keyring that shows a dialog."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[[], T], seconds: float) -> T:
    """Return the result of `function`, run in a new thread; its exceptions are raised here. Raises TimeoutError after
    `seconds`.

    An abandoned thread continues, and delays neither the shutdown nor other calls; threads of `asyncio.to_thread` are
    joined at exit.
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
        # The loop may already be closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="secrets", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await answer
