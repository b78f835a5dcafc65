"""What a connection does with the bodies of its requests: nothing until one is asked for, and then once."""

from __future__ import annotations

import asyncio
from typing import Protocol

from runtime.http.body import Gathering
from runtime.http.buffer import Buffer
from runtime.http.crowd import Group, Member
from runtime.http.head import CHUNKED, Head
from runtime.http.listener import Listener
from runtime.http.problem import Problem


class Carrier(Member, Protocol):
    """The connection."""

    @property
    def ended(self) -> bool:
        """No more will come."""

    def say_go_on(self) -> None:
        """Tell a sender that waits to be told."""

    def read_on(self) -> None:
        """There is nothing any more that has to be handled first."""


class Intake:
    """The body of the request that is being handled, one after the other.

    `group`: the connection's, which is told when a body is awaited. `asked`: somebody asked for it; set back for each
    request. `gathering`: what comes in belongs to it. `broken`: where the next request would begin is not known.
    """

    __slots__ = ("_bodies", "_buffer", "_carrier", "_held", "_listener", "asked", "broken", "gathering", "group")

    group: Group

    def __init__(self, carrier: Carrier, buffer: Buffer, listener: Listener) -> None:
        self._carrier = carrier
        self._buffer = buffer
        self._listener = listener
        self._bodies = listener.bodies
        self._held = 0  # bytes of it that count among all bodies
        self.asked = False
        self.broken = False
        self.gathering: Gathering | None = None

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
            self._held = length
            return self._buffer.take(length)
        if self._carrier.ended:
            raise self._break(Problem("incomplete_body"))
        self.gathering = gathering = Gathering(length, limit, self._listener.now, self._gathered)
        self._bodies.gathering.add(gathering)
        self.group.wait(self._carrier)
        first = self._buffer.take(len(self._buffer))
        if first:
            rest = self.feed(first)
            if rest:
                self._buffer.add(rest)
            self._carrier.read_on()
        elif head.expects:
            self._carrier.say_go_on()
        return gathering.body

    def feed(self, data: bytes) -> bytes | None:
        """Take `data` for the body that is gathered; what follows that once it is whole, None before."""
        gathering = self.gathering
        assert gathering is not None
        rest = gathering.feed(data)
        if self.broken:
            return None
        if self._bodies.hold(gathering.size - self._held, gathering):
            self._held = gathering.size
        else:
            # It goes on when this was the last piece, which is not counted then.
            gathering.fail(Problem("overloaded"))
        return rest

    def fail(self, problem: Problem) -> None:
        """What is gathered will never be whole."""
        if self.gathering is not None:
            self.gathering.fail(problem)

    def finish(self, head: Head) -> int | None:
        """The request with `head` has been handled, and its body takes no more room. Bytes of it that nobody asked for
        and that are worth reading to use the connection again; None when the connection has to end."""
        self._bodies.size -= self._held
        self._held = 0
        if self.broken:
            return None
        if self.asked or not head.length:
            return 0
        worth = 0 < head.length <= self._listener.limits.discarded and not head.expects
        return head.length if worth else None

    def _gathered(self, *, whole: bool) -> None:
        assert self.gathering is not None
        self._bodies.gathering.discard(self.gathering)
        self.gathering = None
        if not whole:
            self.broken = True
            self._bodies.size -= self._held
            self._held = 0
        self.group.work(self._carrier)

    def _break(self, problem: Problem) -> Problem:
        self.broken = True
        return problem
