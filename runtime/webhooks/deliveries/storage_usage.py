"""How much is kept of requests: measured now and then, counted up in between."""

from __future__ import annotations

import asyncio
from typing import Final

KEEP_BYTES: Final = 256 * 1024 * 1024
"""What is kept by default of deliveries that have been handled."""

FULL: Final = 4
"""How many times that may wait before no more is taken: what waits, and dead letters, are never deleted for room."""

EACH_BYTES: Final = 512
"""What a delivery takes beside its body, about: its headers, and what sealing adds."""


class StorageUsage:
    """The bytes of kept requests. Admission counts up and asks whether it is `full`; retention measures and makes
    room, at once when `wanted` is set."""

    def __init__(self, keep: int = KEEP_BYTES) -> None:
        """`keep`: bytes."""
        self.keep = keep
        self.used = 0
        self.wanted = asyncio.Event()
        self.keys_from = 0
        """Unix milliseconds: replay keys that expire before this may have been forgotten already."""
        self.counted = 0
        """The bytes that were ever counted up: a measurement begins with a look at this."""
        self._measured = 0

    @property
    def full(self) -> bool:
        """Whether so much waits that no more is taken."""
        return self.used > FULL * self.keep

    def add(self, size: int) -> None:
        """Count a delivery with a body of `size` bytes."""
        self.used += size + EACH_BYTES
        self.counted += size + EACH_BYTES
        if self.full or self._much_is_new():
            self._measured = self.used
            self.wanted.set()

    def measured(self, used: int, *, began: int) -> None:
        """Take over what was measured, and what was `counted` up since it `began`: that may be in it or not, and is
        rather taken twice until the next measurement than forgotten."""
        self._measured = used
        self.used = used + self.counted - began
        if self._much_is_new():
            self.wanted.set()

    def _much_is_new(self) -> bool:
        """Whether it is worth looking for room. Not for every delivery beyond it: where nothing has been handled yet
        there is no room to be made."""
        return self.used > self.keep and self.used - self._measured > self.keep // 8
