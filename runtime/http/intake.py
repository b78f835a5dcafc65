"""What a connection does with the bodies of its requests: nothing until one is asked for, and then once."""

from __future__ import annotations

import asyncio
from typing import Protocol

from runtime.http.body import Bodies, Gathering
from runtime.http.buffer import Buffer
from runtime.http.head import CHUNKED, Head
from runtime.http.limits import Limits
from runtime.http.problem import Problem


class Carrier(Protocol):
    """The connection."""

    @property
    def ended(self) -> bool:
        """No more will come."""

    def await_body(self, *, say: bool) -> None:
        """A body is awaited from now on; `say`: its sender waits to be told to go on."""

    def have_body(self) -> None:
        """It is here, or will never be."""


class Intake:
    """The body of the request that is being handled, one after the other.

    `asked`: somebody asked for it; set back for each request. `held`: bytes of it that count among all bodies.
    `gathering`: what comes in belongs to it. `broken`: where the next request would begin is not known.
    """

    __slots__ = ("_bodies", "_buffer", "_carrier", "_limits", "asked", "broken", "gathering", "held")

    def __init__(self, carrier: Carrier, buffer: Buffer, bodies: Bodies, limits: Limits) -> None:
        self._carrier = carrier
        self._buffer = buffer
        self._bodies = bodies
        self._limits = limits
        self.asked = False
        self.held = 0
        self.gathering: Gathering | None = None
        self.broken = False

    def body(self, head: Head, limit: int) -> bytes | asyncio.Future[bytes]:
        """The body of the request with `head`, for `Request.read`. Raises `Problem`."""
        length = head.length
        if self.asked or not length:
            return b""
        if length > limit:
            raise self._break(Problem("body_too_large"))
        self.asked = True
        if length != CHUNKED and len(self._buffer) >= length:
            if not self._bodies.hold(length):
                raise self._break(Problem("overloaded"))
            self.held = length
            return self._buffer.take(length)
        if self._carrier.ended:
            raise self._break(Problem("incomplete_body"))
        return self._gather(head, limit)

    def feed(self, data: bytes) -> bytes | None:
        """Take `data` for the body that is gathered; what follows that once it is whole, None before."""
        gathering = self.gathering
        assert gathering is not None
        rest = gathering.feed(data)
        if self.broken:
            return None
        if self._bodies.hold(gathering.size - self.held, gathering):
            self.held = gathering.size
        else:
            # It goes on when this was the last piece, which is not counted then.
            gathering.fail(Problem("overloaded"))
        return rest

    def fail(self, problem: Problem) -> None:
        """What is gathered will never be whole."""
        if self.gathering is not None:
            self.gathering.fail(problem)

    def let_go(self) -> None:
        """The body takes no more room."""
        self._bodies.size -= self.held
        self.held = 0

    def left_over(self, head: Head) -> int | None:
        """Bytes of the body that nobody asked for and that are worth reading to use the connection again; None when
        the connection has to end."""
        if self.broken:
            return None
        if self.asked or not head.length:
            return 0
        worth = 0 < head.length <= self._limits.discarded and not head.expects
        return head.length if worth else None

    def _gather(self, head: Head, limit: int) -> asyncio.Future[bytes]:
        self.gathering = gathering = Gathering(head.length, limit, self._bodies.now(), self._gathered)
        self._bodies.gathering.add(gathering)
        first = self._buffer.take(len(self._buffer))
        self._carrier.await_body(say=head.expects and not first)
        if first:
            rest = self.feed(first)
            if rest:
                self._buffer.add(rest)
        return gathering.body

    def _gathered(self, *, whole: bool) -> None:
        assert self.gathering is not None
        self._bodies.gathering.discard(self.gathering)
        self.gathering = None
        if not whole:
            self.broken = True
            self.let_go()
        self._carrier.have_body()

    def _break(self, problem: Problem) -> Problem:
        self.broken = True
        return problem
