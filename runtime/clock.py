"""Time and the identifiers made of it. What asks for the time is given a `Clock`, so that tests move it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

from runtime.random_bytes import random_bytes


class Clock(Protocol):
    """Where time comes from."""

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
    """Unix time in whole milliseconds: how every time stands in the database."""
    return int(clock.now() * 1000)


def utc(unix_seconds: float) -> datetime:
    """An aware UTC datetime for a Unix time in seconds."""
    return datetime.fromtimestamp(unix_seconds, UTC)


def rfc3339(unix_seconds: float) -> str:
    """`2026-02-14T10:30:00Z`: UTC, whole seconds (RFC 3339 section 5.6)."""
    return utc(unix_seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


_last_made = [-1, 0]
"""The millisecond of the last identifier, and its count."""


def uuid7(clock: Clock) -> str:
    """A new UUID version 7 (RFC 9562 section 5.7) in canonical text form.

    Its first 48 bits are the time in milliseconds, so rows inserted together lie together in an index. The 12 bits
    after them count what this process makes within one millisecond (section 6.2, method 1), so that the order of ids
    is the order in which they were made, as long as the clock is not set back.
    """
    now, random = milliseconds(clock), random_bytes(9).hex()
    last, count = _last_made
    count = count + 1 if now == last else int(random[16:], 16)
    _last_made[:] = now, count
    moment = f"{now & 0xFFFFFFFFFFFF:012x}"
    variant = "89ab"[int(random[3], 16) & 3]
    return f"{moment[:8]}-{moment[8:]}-7{count & 0xFFF:03x}-{variant}{random[:3]}-{random[4:16]}"
