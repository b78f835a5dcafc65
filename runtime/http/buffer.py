"""What has come over a connection and has not been looked at."""

from __future__ import annotations

from runtime.http.head import END, Head, check_beginning, parse
from runtime.http.limits import Limits


class Buffer:
    """Bytes in the order in which they came; its length is how many there are."""

    __slots__ = ("_at", "_data")

    def __init__(self) -> None:
        self._data = b""
        self._at = 0  # what stands before this has been taken

    def __len__(self) -> int:
        return len(self._data) - self._at

    def add(self, data: bytes) -> None:
        """Put `data` behind what is there."""
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at = 0

    def clear(self) -> None:
        """Throw away what is there."""
        self._data, self._at = b"", 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes, or as many as there are."""
        at, self._at = self._at, min(len(self._data), self._at + size)
        taken = self._data[at : self._at]
        if self._at == len(self._data):
            self._data, self._at = b"", 0
        return taken

    def head(self, limits: Limits) -> Head | None:
        """The next request's head; None when it is not whole yet. Raises `Problem` when it is none."""
        data, at = self._data, self._at
        if data.startswith(b"\r\n", at):
            at += 2  # RFC 9112 section 2.2: an empty line before a request is nothing
        end = data.find(END, at, at + limits.head + len(END))
        if end < 0:
            if at < len(data):
                check_beginning(data[at:] if at else data, limits)
            return None
        self._at = end + len(END)
        return parse(data[at:end], limits)
