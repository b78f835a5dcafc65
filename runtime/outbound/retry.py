"""Repetition of calls that failed and may succeed later."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from runtime.clock import Clock
from runtime.errors import Retry

Answer = TypeVar("Answer")

LONGEST_WAIT_SECONDS: Final = 30.0
"""Default maximum seconds of a `Retry-After` that is waited for; a longer one ends the call, and the caller decides
when to retry."""

_FIRST_WAIT_SECONDS: Final = 0.5


async def call_with_retries(
    attempt: Callable[[], Awaitable[Answer]],
    *,
    tries: int,
    clock: Clock,
    passing: Callable[[Retry], bool],
    until: float | None = None,
    longest_wait: float = LONGEST_WAIT_SECONDS,
) -> Answer:
    """Return the answer of `attempt`, which is called `tries` times in all while it raises errors that are `passing`.

    The waits are 0.5 s, 1 s, 2 s … plus or minus a quarter, or what the service asks for. The error is raised at once
    if that is more than `longest_wait` seconds, or would end after `until` (monotonic seconds of `clock`).
    """
    for number in range(1, tries + 1):
        try:
            return await attempt()
        except Retry as failure:
            wait = _wait(failure, number)
            late = until is not None and clock.monotonic() + wait >= until
            if number == tries or wait > longest_wait or late or not passing(failure):
                raise
        await clock.sleep(wait)
    raise ValueError("tries must be at least 1")


def _wait(failure: Retry, number: int) -> float:
    """Return the seconds until the next try: as the service asks, else doubling each time, plus or minus a quarter."""
    if failure.retry_after is not None:
        return failure.retry_after
    return _FIRST_WAIT_SECONDS * 2.0 ** (number - 1) * random.uniform(0.75, 1.25)  # noqa: S311 - no secret
