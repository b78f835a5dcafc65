"""Bytes used by stored requests: measured periodically, incremented in between."""

from __future__ import annotations

import asyncio
from typing import Final

KEEP_BYTES: Final = 256 * 1024 * 1024
"""Default maximum bytes of handled deliveries."""

FULL: Final = 4
"""Multiple of that size which may wait before deliveries are refused: waiting deliveries and dead letters are never
deleted to make room."""

EACH_BYTES: Final = 512
"""Approximate bytes of a delivery beside its body: headers and encryption overhead."""


class StorageUsage:
    """The bytes of stored requests. Admission increments and checks `full`; retention measures and makes room,
    immediately when `prune_requested` is set."""

    def __init__(self, keep: int = KEEP_BYTES) -> None:
        """`keep`: bytes."""
        self.keep = keep
        self.used = 0
        self.prune_requested = asyncio.Event()
        self.keys_from = 0
        """Unix milliseconds: replay keys that expire before this may have been deleted."""
        self.counted = 0
        """All bytes ever added; a measurement reads this first."""
        self._measured = 0

    @property
    def full(self) -> bool:
        """True if so much waits that deliveries are refused."""
        return self.used > FULL * self.keep

    def add(self, size: int) -> None:
        """Count a delivery with a body of `size` bytes."""
        self.used += size + EACH_BYTES
        self.counted += size + EACH_BYTES
        if self.full or self._much_is_new():
            self._measured = self.used
            self.prune_requested.set()

    def set_measured(self, used: int, *, began: int) -> None:
        """Set the measured bytes, plus those `counted` since the measurement `began`: they may be counted twice until
        the next measurement, but are never missed."""
        self._measured = used
        self.used = used + self.counted - began
        if self._much_is_new():
            self.prune_requested.set()

    def _much_is_new(self) -> bool:
        """Return True if making room is likely to free something. Not for every delivery over the bound: if none has
        been handled yet, there is nothing to delete."""
        return self.used > self.keep and self.used - self._measured > self.keep // 8
