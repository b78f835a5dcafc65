"""Standard input and output for the server's message loop.

All available bytes are read at once, and the loop handles the messages in them without pause. So work that is deferred
until the loop is idle (`call_soon`) is done once for all waiting edits.
"""

from __future__ import annotations

import asyncio
import os
import threading

_MOST = 1 << 16  # bytes of one read
_LONGEST_HEADER = 1 << 20


class Input(asyncio.StreamReader):
    """A file descriptor that a thread reads; the running loop receives the bytes."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(limit=_LONGEST_HEADER)
        self._descriptor = descriptor
        # A daemon thread, because a blocked read cannot be ended.
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
    """A file descriptor to write messages to. If the client has disconnected, `gone` is set and output is dropped."""

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
        """Do nothing: `write` does not buffer."""
