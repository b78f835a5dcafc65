"""Time, and identifiers derived from it. Code that needs the time takes a `Clock`, so that tests control it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

from runtime.random_bytes import random_bytes


class Clock(Protocol):
    """A source of time."""

    def now(self) -> float:
        """Unix time in seconds."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never steps back."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock's time."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM: Clock = SystemClock()


def milliseconds(clock: Clock) -> int:
    """Unix time in whole milliseconds, the form in which the database stores every time."""
    return int(clock.now() * 1000)


def utc(unix_seconds: float) -> datetime:
    """Return an aware UTC datetime for a Unix time in seconds."""
    return datetime.fromtimestamp(unix_seconds, UTC)


def rfc3339(unix_seconds: float) -> str:
    """Format a Unix time as `2026-02-14T10:30:00Z`: UTC, whole seconds (RFC 3339 section 5.6)."""
    return utc(unix_seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


_last_id = [-1, 0]
"""The millisecond and the count of the last identifier."""


def uuid7(clock: Clock) -> str:
    """Return a new UUID version 7 (RFC 9562 section 5.7) in canonical text form.

    Its first 48 bits are the time in milliseconds, so that rows inserted together are close together in an index. The
    next 12 bits count the identifiers that this process makes within one millisecond (section 6.2, method 1), so that
    ids sort in the order of their creation, unless the clock is set back.
    """
    now, random = milliseconds(clock), random_bytes(9).hex()
    last, count = _last_id
    count = count + 1 if now == last else int(random[16:], 16)
    _last_id[:] = now, count
    moment = f"{now & 0xFFFFFFFFFFFF:012x}"
    variant = "89ab"[int(random[3], 16) & 3]
    return f"{moment[:8]}-{moment[8:]}-7{count & 0xFFF:03x}-{variant}{random[:3]}-{random[4:16]}"
