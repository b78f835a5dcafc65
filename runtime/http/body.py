"""Request bodies: reading of one body, and the memory that all of them may use."""

from __future__ import annotations

from typing import Final

from aiohttp import StreamReader
from aiohttp.web_protocol import RequestPayloadError

from runtime.http.error import HttpError
from runtime.http.head import CHUNKED
from runtime.http.limits import HttpLimits

MOST_FRAMING: Final = 16 * 1024
"""Maximum bytes of framing beyond the body's size: a body in chunks of one byte each costs as much to read
as one six times as large."""

LEAST_FRAMING: Final = 5
"""Bytes of framing of each chunk: a digit and two line ends."""

READ_AHEAD: Final = 512 * 1024
"""Bytes that may have arrived without being decoded: two reads of the event loop."""


class BodyReader:
    """Gathers one body of `length` bytes, or `CHUNKED`, from `content`; it began at `began`.

    `size`: bytes so far, which count among all `bodies` until `let_go`.
    """

    __slots__ = ("_bodies", "_content", "_length", "_received", "began", "size")

    def __init__(self, content: StreamReader, length: int, bodies: Bodies, began: float) -> None:
        self._content = content
        self._length = length
        self._bodies = bodies
        self.began = began
        self._received = 0  # received over the connection since it began, framing included
        self.size = 0

    async def all(self, limit: int) -> bytes:
        """Return the whole body. Raises `HttpError`, also the error given to `fail`."""
        parts: list[bytes] = []
        chunked = self._length == CHUNKED
        try:
            while True:
                part = (await self._content.readchunk())[0] if chunked else await self._content.readany()
                if part:
                    parts.append(part)
                    self._add(len(part), limit)
                elif self._content.at_eof():
                    return b"".join(parts)
                if chunked and len(parts) * LEAST_FRAMING > MOST_FRAMING + self.size:
                    raise HttpError("malformed_request")
        except (RequestPayloadError, ConnectionError, RuntimeError):
            # RuntimeError: the connection ended before this call.
            raise HttpError("incomplete_body") from None

    def note(self, size: int) -> None:
        """Count `size` more bytes received over the connection: the bytes of an unfinished line are in no chunk."""
        self._received += size
        if self._received > READ_AHEAD + MOST_FRAMING + 2 * self.size and self._length == CHUNKED:
            self.fail(HttpError("malformed_request"))

    def fail(self, problem: HttpError) -> None:
        """End the body with an error and release its memory."""
        self.let_go()
        self._content.set_exception(problem)

    def let_go(self) -> None:
        """Release its memory: it no longer counts."""
        self._bodies.size -= self.size
        self.size = 0

    def late(self, now: float, limits: HttpLimits) -> bool:
        """Return True if it takes too long, or arrives too slowly: a sender must not hold a connection with a few
        bytes."""
        passed = now - self.began
        return passed >= limits.body_seconds or (passed > limits.body_grace and self.size < passed * limits.body_rate)

    def _add(self, more: int, limit: int) -> None:
        if self.size + more > limit:
            raise HttpError("body_too_large")
        if not self._bodies.reserve(more, self):
            raise HttpError("overloaded")
        self.size += more


class Bodies:
    """The bodies in memory on all connections of a listener. `size`: their bytes. `gathering`: the incomplete ones.
    `now`: the event loop's time, at most a second old."""

    __slots__ = ("_limits", "gathering", "now", "size")

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self.now = 0.0
        self.size = 0
        self.gathering: set[BodyReader] = set()

    def reserve(self, more: int, by: BodyReader | None = None) -> bool:
        """Count `more` bytes, of the body that is read `by`; return False, and count nothing, if there is no room
        for them."""
        if self.size + more > self._limits.gathered and not self._make_room(more, by):
            return False
        self.size += more
        return True

    def _make_room(self, more: int, by: BodyReader | None) -> bool:
        """Drop the slowest bodies of those past their grace period, so that a fast sender need not wait until slow
        ones time out."""
        limits, now = self._limits, self.now
        while self.size + more > limits.gathered:
            others = [each for each in self.gathering if each is not by and now - each.began >= limits.body_grace]
            if not others:
                return False
            slowest = min(others, key=lambda each: each.size / (now - each.began + 1))
            self.gathering.discard(slowest)
            slowest.fail(HttpError("overloaded"))
        return True
