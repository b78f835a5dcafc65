"""A body on its way in."""

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


class Gathering:
    """Gathers one body of `length` bytes, or `CHUNKED`, and never much more than `limit`.

    `body` is the future of it; it fails with a `Problem`. `size`: bytes so far.
    """

    __slots__ = ("_began", "_chunks", "_limit", "_limits", "_parts", "_tell", "_wanted", "body", "size")

    def __init__(self, length: int, limit: int, limits: Limits) -> None:
        self.body: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.size = 0
        self._wanted = length
        self._limit = limit
        self._limits = limits
        self._parts: list[bytes] = []
        self._chunks = Chunks() if length == CHUNKED else None

    def begin(self, now: float, tell: Gathered) -> float:
        """Begin at `now`; by when the body must be here."""
        self._began, self._tell = now, tell
        return now + self._limits.body_seconds

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
            self._tell(whole=False)

    def drips(self, now: float) -> bool:
        """Whether it comes too slowly: a sender must not hold a connection with a byte now and then."""
        passed = now - self._began
        return passed > self._limits.body_grace and self.size < passed * self._limits.body_rate

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
