"""Standard input and output as the server's message loop wants them.

All that has arrived is read at once, and the loop hands it on message by message without pause: work that is put off
until the loop is free again (`call_soon`) is done once for all edits that were waiting.
"""

from __future__ import annotations

import asyncio
import os
import threading

_MOST = 1 << 16  # bytes of one read
_LONGEST_HEADER = 1 << 20


class Input(asyncio.StreamReader):
    """A file descriptor, read by a thread of its own; the running loop gets the bytes."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(limit=_LONGEST_HEADER)
        self._descriptor = descriptor
        # A daemon, for nothing ends a read that waits.
        threading.Thread(
            target=self._read, args=(asyncio.get_running_loop(),), name="language server's input", daemon=True
        ).start()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        data = b"-"
        while data:
            try:
                data = os.read(self._descriptor, _MOST)
            except OSError:
                data = b""
            try:
                loop.call_soon_threadsafe(self._take, data)
            except RuntimeError:  # the loop has ended
                return

    def _take(self, data: bytes) -> None:
        if data:
            self.feed_data(data)
        else:
            self.feed_eof()


class Output:
    """A file descriptor to write messages to. When the client is gone, `gone` is set and what is written is dropped."""

    def __init__(self, descriptor: int, gone: threading.Event) -> None:
        self._descriptor = descriptor
        self._gone = gone

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left and not self._gone.is_set():
            try:
                left = left[os.write(self._descriptor, left) :]
            except OSError:
                self._gone.set()

    def close(self) -> None:
        """Nothing is held back."""
