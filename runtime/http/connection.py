"""One connection: requests from it in order, one at a time, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import cast

import structlog

from runtime.http.buffer import Buffer
from runtime.http.drive import drive
from runtime.http.intake import Intake
from runtime.http.listener import Listener
from runtime.http.problem import Problem
from runtime.http.request import Request
from runtime.http.response import CONTINUE, Response, failure, render

log = structlog.get_logger("symbiont.http")

BURST = 16
"""Requests of one connection that are begun before others have their turn."""


class Connection(asyncio.Protocol):
    """`deadline`: when `expire` is due, in the event loop's seconds.

    At any time it is in one of these: between requests; in a head (`_heading`); handling a request (`_request`), of
    which it may be gathering the body (`_intake`); skipping a refused body (`_skip`); or lingering, with everything
    said. `_group` is told when it begins and when it ends to wait for its peer.
    """

    __slots__ = (
        *("_advancing", "_buffer", "_ended", "_gives_way", "_group", "_heading", "_intake", "_lingering", "_lost"),
        *("_peer", "_reading", "_request", "_scheduled", "_server", "_skip", "_transport", "_writable", "deadline"),
    )

    def __init__(self, server: Listener) -> None:
        self.deadline = inf
        self._server = server
        self._peer: str | None = None
        self._buffer = Buffer()
        self._intake = Intake(self, self._buffer, server)
        self._request: Request | None = None
        self._skip = 0
        self._heading = False
        self._lingering = False
        self._gives_way = False  # another one needs its place
        self._ended = False  # the peer sends no more
        self._lost = False
        self._reading = True
        self._writable = True
        self._advancing = False
        self._scheduled = False  # it goes on when others have had their turn

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's by their methods only.
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else None
        group = self._server.admit(self, self._peer)
        if group is None:
            self._transport.write(render(self._server.refuse(Problem("overloaded"), self._peer), alive=False))
            self._gives_way = True
            self.close()
            return
        self._group = self._intake.group = group
        self.deadline = self._server.now + self._server.limits.head_seconds
        if self._server.draining:
            # Accepted at the very moment of the stop.
            self.close()

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        if self._skip:
            skipped, self._skip = self._skip, max(0, self._skip - len(data))
            data = data[skipped:]
            if self._skip or not data:
                if not self._skip:
                    self._wait()
                return
        if self._intake.gathering is not None:
            rest = self._intake.feed(data)
            if rest is None:
                return
            data = rest
        if data:
            self._buffer.add(data)
            self._advance()

    def eof_received(self) -> bool:
        """The peer sends no more, and may well wait for answers."""
        self._ended = True
        self._intake.fail(Problem("incomplete_body"))
        if self._request is None and not self._buffer:
            self.close()
        else:
            self._advance()
        # It is closed here and nowhere else.
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._server.forget(self, None if self._gives_way else self._group)
        self._intake.fail(Problem("incomplete_body"))

    def pause_writing(self) -> None:
        """A sender that asks and never reads is not asked further, or its answers would fill the memory."""
        self._writable = False
        self.deadline = self._server.now + self._server.limits.write_seconds
        if not self._gives_way:
            self._group.wait(self)

    def resume_writing(self) -> None:
        self._writable = True
        if self._lingering or self._gives_way:
            return
        if self._request is None:
            self._heading = False
            self._wait()
            self._advance()
            return
        self.deadline = inf
        if self._intake.gathering is None:
            self._group.work(self)

    # What the server says.

    def look(self, now: float) -> None:
        """See whether the deadline has passed, or that of a body."""
        gathering = self._intake.gathering
        if now >= self.deadline:
            self.expire()
        elif gathering is not None and gathering.late(now, self._server.limits):
            gathering.fail(Problem("timeout"))

    def expire(self) -> None:
        """The deadline has passed."""
        if self._lingering or not self._writable:
            self._transport.abort()
        elif self._heading:
            self._fail(Problem("timeout"))
        else:
            self.close()

    def give_way(self) -> None:
        """Another connection needs the place: end at once, and tell a sender whose body was awaited."""
        self._gives_way = True
        if self._intake.gathering is not None:
            self._intake.fail(Problem("overloaded"))
        elif self._lingering or not self._writable:
            self._transport.abort()
        else:
            self.close()

    @property
    def idle(self) -> bool:
        """Whether it waits for its next request, and nothing of that has come."""
        return self._request is None and not self._heading and not self._lingering and not self._skip

    def drain(self) -> None:
        """The server stops: close once nothing is under way."""
        if self.idle and not self._buffer:
            self.close()

    def close(self, *, at_once: bool = False) -> None:
        """End the connection when the peer has read what was said, or could have; `at_once`: without that."""
        if at_once:
            self._transport.abort()
            return
        limits = self._server.limits
        self._lingering = True
        self.deadline = self._server.now + (limits.linger_seconds if self._gives_way else limits.write_seconds)
        self._transport.close()

    # Requests.

    def _advance(self) -> None:
        """Begin the requests that are here, each when the one before it has been answered."""
        if self._advancing or self._scheduled:
            return
        self._advancing = True
        try:
            for _ in range(BURST):
                if self._request is not None or self._lingering or self._lost or not self._writable or self._skip:
                    return
                if not self._begin():
                    self._await_more()
                    return
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._advance_later)
        except Problem as problem:
            self._fail(problem)
        finally:
            self._advancing = False
            self._read_or_not()

    def _advance_later(self) -> None:
        self._scheduled = False
        self._advance()

    def _begin(self) -> bool:
        """Begin the next request; False when its head is not here yet. Raises `Problem`."""
        head = self._buffer.head(self._server.limits)
        if head is None:
            return False
        self._heading = False
        self.deadline = inf
        self._intake.asked = False
        self._request = request = Request(head, self._peer, self._intake)
        self._group.work(self)
        drive(self._server.handler(request), self._answer)
        return True

    # What the intake of its bodies asks of it.

    @property
    def ended(self) -> bool:
        """No more will come."""
        return self._ended or self._lost

    def say_go_on(self) -> None:
        """Tell a sender that waits to be told."""
        self._transport.write(CONTINUE)

    def read_on(self) -> None:
        """There is nothing any more that has to be handled first."""
        self._read_or_not()

    # Answers.

    def _answer(self, result: Response | BaseException) -> None:
        """Write the answer to the request that is handled, and go on with the next one."""
        request, self._request = self._request, None
        assert request is not None
        head = request.head
        behind = self._intake.finish(head)
        if self._lost:
            return
        if not isinstance(result, Response):
            log.error("a request could not be handled", exc_info=result)
            result = failure(Problem("internal_error"))
        alive = head.keep_alive and not result.close and behind is not None and not self._server.draining
        self._transport.write(render(result, alive=alive, minor=head.minor, without_body=head.method == "HEAD"))
        if not alive:
            self._end(quiet=behind == 0)
            return
        if behind:
            self._skip = behind - len(self._buffer.take(behind))
        self._wait()
        if not self._advancing:
            self._advance()

    def _fail(self, problem: Problem) -> None:
        """Answer what is no request, and end."""
        self._intake.broken = True
        self._transport.write(render(self._server.refuse(problem, self._peer), alive=False))
        self._end(quiet=False)

    def _end(self, *, quiet: bool) -> None:
        """Everything has been said. What the sender still sends is let pass for a while, or it could not read it;
        `quiet`: nothing is to come that we know of."""
        quiet = quiet and self._reading and not self._buffer
        self._buffer.clear()
        if self._ended or self._gives_way or quiet or not self._transport.can_write_eof():
            self.close()
            return
        self._lingering = True
        self._transport.write_eof()
        self._read_or_not()
        self._group.wait(self)
        self.deadline = self._server.now + self._server.limits.linger_seconds + 1

    # Waiting.

    def _wait(self) -> None:
        """Nothing is under way: wait for the next request."""
        server = self._server
        if not self._writable:
            return
        if self._skip:
            self.deadline = server.now + server.limits.body_seconds
            self._group.wait(self)
        elif server.draining:
            self.close()
        else:
            self.deadline = server.now + server.limits.idle_seconds
            self._group.rest(self)

    def _await_more(self) -> None:
        """The next head is not here yet, or not whole."""
        if self._ended:
            self.close()
        elif not self._buffer:
            if self._server.draining:
                self.close()
        elif not self._heading:
            self._heading = True
            self._group.wait(self)
            self.deadline = self._server.now + self._server.limits.head_seconds

    def _read_or_not(self) -> None:
        """Read on unless what is here already has to wait."""
        busy = self._scheduled or (self._request is not None and self._intake.gathering is None)
        reading = (self._lingering or self._writable) and not (busy and self._buffer)
        if reading != self._reading and not self._lost:
            self._reading = reading
            act: Callable[[], None] = self._transport.resume_reading if reading else self._transport.pause_reading
            act()
