"""Chunked bodies (RFC 9112 section 7.1), decoded as they come."""

from __future__ import annotations

import re
from typing import Final

from runtime.http.problem import Problem

LONGEST_LINE: Final = 256
"""Bytes of the line before a chunk; extensions are ignored, and nobody needs long ones."""

LONGEST_TRAILER: Final = 8 * 1024

MOST_FRAMING: Final = 16 * 1024
"""Bytes of framing that a body may have beyond its own size: a body in chunks of one byte each costs as much to read
as one six times as large."""

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# Without the white space that RFC 9112 lets a recipient bear with.
_EXTENSION = rb";" + _TOKEN + rb"(?:=(?:" + _TOKEN + rb"|\"[ !#-\[\]-~]*\"))?"
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:" + _EXTENSION + rb")*")
_TRAILER = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)*")
_FRAMING_TRAILER = re.compile(rb"(?:content-length|transfer-encoding|host)[ \t]*:", re.IGNORECASE)


class Chunks:
    """Decodes one chunked body. `size`: bytes decoded so far."""

    __slots__ = ("_behind", "_framing", "_left", "_parts", "_rest", "_trailing", "size")

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[bytes] = []
        self._rest = b""
        self._left = 0
        self._behind = False
        self._framing = 0
        self._trailing = False

    def feed(self, data: bytes, limit: int) -> bytes | None:
        """Take `data`; what follows the body's end once that has come, None before. Stops early, with `size` over
        `limit`, when there is more than that. Raises `Problem` for what is no chunked body."""
        data, self._rest = self._rest + data, b""
        at: int | None = 0
        while at is not None and not self._trailing:
            if self._left:
                at = self._content(data, at, limit)
            elif self._behind:
                at = self._break(data, at)
            else:
                at = self._line(data, at)
        if at is None:
            return None
        self._rest = data[at:]
        return self._trailer()

    def body(self) -> bytes:
        """All of it; what was decoded is let go."""
        body, self._parts = b"".join(self._parts), []
        return body

    # Each of these reads what stands at `at` and returns where it ends; None when that has not come yet.

    def _content(self, data: bytes, at: int, limit: int) -> int | None:
        part = data[at : at + self._left]
        self._parts.append(part)
        self.size += len(part)
        self._left -= len(part)
        self._behind = True
        return None if self._left or self.size > limit else at + len(part)

    def _break(self, data: bytes, at: int) -> int | None:
        """The CRLF behind a chunk."""
        found = data[at : at + 2]
        if found == b"\r\n":
            self._behind = False
            return at + 2
        if found not in {b"", b"\r"}:
            raise Problem("malformed_request")
        self._rest = found
        return None

    def _line(self, data: bytes, at: int) -> int | None:
        """The line that says how long the next chunk is."""
        end = data.find(b"\r\n", at, at + LONGEST_LINE)
        if end < 0:
            self._rest = data[at:]
            if len(self._rest) >= LONGEST_LINE or b"\n" in self._rest:
                raise Problem("malformed_request")
            return None
        line = _SIZE_LINE.fullmatch(data, at, end)
        self._framing += end + 4 - at
        if line is None or self._framing > MOST_FRAMING + self.size:
            raise Problem("malformed_request")
        self._left = int(line[1], 16)
        self._trailing = not self._left
        return end + 2

    def _trailer(self) -> bytes | None:
        """What follows the trailer, which is checked and ignored: nothing that comes after a body may speak of it."""
        rest = self._rest
        if rest.startswith(b"\r\n"):
            return rest[2:]
        end = rest.find(b"\r\n\r\n", 0, LONGEST_TRAILER)
        if end < 0:
            if len(rest) >= LONGEST_TRAILER or rest.count(b"\n") != rest.count(b"\r\n"):
                raise Problem("malformed_request")
            return None
        if _TRAILER.fullmatch(rest, 0, end + 2) is None or _FRAMING_TRAILER.search(rest, 0, end):
            raise Problem("malformed_request")
        return rest[end + 4 :]
