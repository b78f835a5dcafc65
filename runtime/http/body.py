"""Bodies on their way in: one of them, and how much all of them may take."""

from __future__ import annotations

import asyncio
from typing import Protocol

from runtime.http.chunked import Chunks
from runtime.http.head import CHUNKED
from runtime.http.limits import Limits
from runtime.http.problem import Problem


class Gathered(Protocol):
    """Is told that the body is whole, or will never be."""

    def __call__(self, *, whole: bool) -> None: ...


class Watch(Protocol):
    """Knows the time. `now`: the event loop's, at most a second old."""

    @property
    def now(self) -> float: ...


class Gathering:
    """Gathers one body of `length` bytes, or `CHUNKED`, and never much more than `limit`; it began at `began`.

    `body` is the future of it; it fails with a `Problem`. `size`: bytes so far.
    """

    __slots__ = ("_chunks", "_limit", "_parts", "_tell", "_wanted", "began", "body", "size")

    def __init__(self, length: int, limit: int, began: float, tell: Gathered) -> None:
        self.body: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.size = 0
        self.began = began
        self._wanted = length
        self._limit = limit
        self._tell = tell
        self._parts: list[bytes] = []
        self._chunks = Chunks() if length == CHUNKED else None

    def feed(self, data: bytes) -> bytes | None:
        """Take `data`; what follows the body once it is whole, None before and for a body that has failed."""
        if self._chunks is not None:
            return self._feed_chunks(self._chunks, data)
        missing = self._wanted - self.size
        if len(data) < missing:
            self._parts.append(data)
            self.size += len(data)
            return None
        self._parts.append(data[:missing])
        self.size = self._wanted
        self._succeed(b"".join(self._parts))
        return data[missing:]

    def fail(self, problem: Problem) -> None:
        """It will never be whole."""
        if not self.body.done():
            self.body.set_exception(problem)
            self._parts.clear()
            self._chunks = None
            self._tell(whole=False)

    def late(self, now: float, limits: Limits) -> bool:
        """Whether it takes too long, or comes too slowly: a sender must not hold a connection with a byte now and
        then."""
        passed = now - self.began
        return passed >= limits.body_seconds or (passed > limits.body_grace and self.size < passed * limits.body_rate)

    def _feed_chunks(self, chunks: Chunks, data: bytes) -> bytes | None:
        try:
            rest = chunks.feed(data, self._limit)
        except Problem as problem:
            self.fail(problem)
            return None
        self.size = chunks.size
        if self.size > self._limit:
            self.fail(Problem("body_too_large"))
            return None
        if rest is not None:
            self._succeed(chunks.body())
        return rest

    def _succeed(self, body: bytes) -> None:
        self.body.set_result(body)
        self._tell(whole=True)


class Bodies:
    """The bodies in hand on all connections of a listener. `size`: their bytes. `gathering`: those not yet whole."""

    __slots__ = ("_limits", "_watch", "gathering", "size")

    def __init__(self, limits: Limits, watch: Watch) -> None:
        self._limits = limits
        self._watch = watch
        self.size = 0
        self.gathering: set[Gathering] = set()

    def hold(self, more: int, by: Gathering | None = None) -> bool:
        """Count `more` bytes, of the body that is gathered `by`; False, and nothing is counted, when there is no room
        for them."""
        if self.size + more > self._limits.gathered and not self._make_room(more, by):
            return False
        self.size += more
        return True

    def _make_room(self, more: int, by: Gathering | None) -> bool:
        """Give up those that come slowest, of those that have had the time to come: whoever sends at once what it has
        to send need not wait until the slow ones are given up for their own sake."""
        limits, now = self._limits, self._watch.now
        while self.size + more > limits.gathered:
            others = [each for each in self.gathering if each is not by and now - each.began >= limits.body_grace]
            if not others:
                return False
            min(others, key=lambda each: each.size / (now - each.began + 1)).fail(Problem("overloaded"))
        return True
