"""Waits for an event, for a time that tests move."""

from __future__ import annotations

import asyncio

from runtime.clock import Clock


async def happens(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Wait until an event is set, at most these seconds of the clock; True if it is set."""
    waiting = asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return event.is_set()
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
