"""Bytes of texts that were written for each user and are not yet in the user's row."""

from __future__ import annotations

import threading
from typing import Final

ROW_BYTES: Final = 256
"""Bytes that each text counts besides its own: its row, and its places in indexes."""


class TextCounts:
    """Adds up the texts of one database by user, in any thread. It never counts too little: a text that is written
    twice, or whose transaction is rolled back, counts nevertheless."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, user_id: str, size: int) -> None:
        """Count one text of `size` bytes."""
        self._change(user_id, size + ROW_BYTES)

    def remove(self, user_id: str, size: int) -> None:
        """Take back one text of `size` bytes that was counted."""
        self._change(user_id, -size - ROW_BYTES)

    def _change(self, user_id: str, by: int) -> None:
        with self._lock:
            self._sizes[user_id] = self._sizes.get(user_id, 0) + by

    def of(self, user_id: str) -> int:
        """Return the bytes of a user that are waiting."""
        return self._sizes.get(user_id, 0)

    def take(self, user_id: str | None = None) -> dict[str, int]:
        """Return the waiting bytes by user, of one user or of all, and forget them."""
        with self._lock:
            if user_id is not None:
                return {user_id: self._sizes.pop(user_id, 0)}
            taken, self._sizes = self._sizes, {}
        return taken
