"""Request bodies: reading of one body, and the memory that all of them may use."""

from __future__ import annotations

from collections import Counter
from typing import Final

from aiohttp import StreamReader, web

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


class Room:
    """The memory of one body. `size`: its bytes, which count among all `bodies` until `release`. `sender`: the network
    of the address that sends it; None if that is unknown."""

    __slots__ = ("_bodies", "sender", "size")

    def __init__(self, bodies: Bodies, sender: bytes | None = None) -> None:
        self._bodies = bodies
        self.sender = sender
        self.size = 0

    def take(self, more: int) -> None:
        """Count `more` bytes. Raises `HttpError` `overloaded` if there is no room for them."""
        if not self._bodies.reserve(self, more):
            raise HttpError("overloaded")

    def give_back(self, size: int) -> None:
        """Stop counting `size` of its bytes."""
        self._bodies.release(self, size)

    def release(self) -> None:
        """Count nothing any more."""
        self.give_back(self.size)


class BodyReader:
    """Gathers one body of `length` bytes, or `CHUNKED`, from `content` into `room`; it began at `began`."""

    __slots__ = ("_content", "_length", "_received", "began", "room")

    def __init__(self, content: StreamReader, length: int, room: Room, began: float) -> None:
        self._content = content
        self._length = length
        self.room = room
        self.began = began
        self._received = 0  # received over the connection since it began, framing included

    async def all(self, limit: int) -> bytes:
        """Return the whole body. Raises `HttpError`, also the error given to `fail`."""
        parts: list[bytes] = []
        chunked = self._length == CHUNKED
        try:
            while True:
                part = (await self._content.readchunk())[0] if chunked else await self._content.readany()
                if part:
                    parts.append(part)
                    if self.room.size + len(part) > limit:
                        raise HttpError("body_too_large")
                    self.room.take(len(part))
                elif self._content.at_eof():
                    return b"".join(parts)
                if chunked and len(parts) * LEAST_FRAMING > MOST_FRAMING + self.room.size:
                    raise HttpError("malformed_request")
        except (web.RequestPayloadError, ConnectionError, RuntimeError):
            # RuntimeError: the connection ended before this call.
            raise HttpError("incomplete_body") from None

    def note(self, size: int) -> None:
        """Count `size` more bytes received over the connection: the bytes of an unfinished line are in no chunk."""
        self._received += size
        if self._received > READ_AHEAD + MOST_FRAMING + 2 * self.room.size and self._length == CHUNKED:
            self.fail(HttpError("malformed_request"))

    def fail(self, problem: HttpError) -> None:
        """End the body with an error and release its memory."""
        self.room.release()
        self._content.set_exception(problem)

    def is_late(self, now: float, limits: HttpLimits) -> bool:
        """Return True if it takes too long, or arrives too slowly: a sender must not hold a connection with a few
        bytes."""
        passed = now - self.began
        slow = passed > limits.body_grace and self.room.size < passed * limits.body_rate
        return slow or passed >= limits.body_seconds


class Bodies:
    """The bodies in memory on all connections of a listener. `size`: their bytes. `large`: those beyond the first
    `HttpLimits.small` of each body. `gathering`: the incomplete ones. `now`: the event loop's time, at most a second
    old."""

    __slots__ = ("_by_sender", "_limits", "gathering", "large", "now", "size")

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._by_sender = Counter[bytes | None]()  # bytes of `large`
        self.now = 0.0
        self.size = 0
        self.large = 0
        self.gathering: set[BodyReader] = set()

    def reserve(self, room: Room, more: int) -> bool:
        """Count `more` bytes for `room`; return False, and count nothing, if there is no room for them.

        Small bodies always have half of the memory, so that large ones never keep them out. One sender has at most half
        of the rest: a request has not been verified when its body is read.
        """
        large = self._large(room.size, room.size + more)
        if large:
            mine = self._by_sender[room.sender] + large
            if room.sender is not None and mine > self._limits.all_bodies // 4:
                return False
        if self._exceeds_limits(more, large) and not self._make_room(room, more, large):
            return False
        self._count(room, more, large)
        return True

    def release(self, room: Room, size: int) -> None:
        """Stop counting `size` bytes of `room`."""
        self._count(room, -size, -self._large(room.size - size, room.size))

    def _count(self, room: Room, more: int, large: int) -> None:
        room.size += more
        self.size += more
        if large:
            self.large += large
            self._by_sender[room.sender] += large
            if not self._by_sender[room.sender]:
                del self._by_sender[room.sender]

    def _large(self, size: int, larger: int) -> int:
        """Return the number of bytes from `size` to `larger` of a body that are beyond a small one."""
        return 0 if larger <= self._limits.small else larger - max(size, self._limits.small)

    def _exceeds_limits(self, more: int, large: int) -> bool:
        all_bodies = self._limits.all_bodies
        return self.size + more > all_bodies or (large > 0 and self.large + large > all_bodies // 2)

    def _make_room(self, room: Room, more: int, large: int) -> bool:
        """Drop the slowest bodies of those past their grace period, so that a fast sender need not wait until slow
        ones time out, and of those whose sender would still hold more than this one."""
        limits, now, mine = self._limits, self.now, self._by_sender[room.sender] + large
        while self._exceeds_limits(more, large):
            any_size = self.size + more > limits.all_bodies
            others = [
                each
                for each in self.gathering
                if each.room is not room
                and (any_size or each.room.size > limits.small)
                and (now - each.began >= limits.body_grace or self._by_sender[each.room.sender] > mine)
            ]
            if not others:
                return False
            slowest = min(others, key=lambda each: each.room.size / (now - each.began + 1))
            self.gathering.discard(slowest)
            slowest.fail(HttpError("overloaded"))
        return True
