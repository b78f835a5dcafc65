"""One connection: requests from it in order, one at a time, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any, Protocol, cast

import structlog

from runtime.http.body import Gathering
from runtime.http.buffer import Buffer
from runtime.http.drive import drive
from runtime.http.head import CHUNKED, Head
from runtime.http.limits import Limits
from runtime.http.problem import Problem
from runtime.http.request import Request
from runtime.http.response import CONTINUE, Response, failure, render

log = structlog.get_logger("symbiont.http")

BURST = 16
"""Requests of one connection that are begun before others have their turn."""


Handler = Callable[[Request], Coroutine[Any, Any, Response]]
"""Answers a request. It has no task of its own, see `drive`."""


class Listener(Protocol):
    """What all connections of one listener share: `runtime.http.server.Server`.

    `gathered`: bytes of the bodies in hand. `now`: the event loop's time, at most a second old. `draining`: it has
    been asked to stop.
    """

    gathered: int

    @property
    def handler(self) -> Handler: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def now(self) -> float: ...
    @property
    def draining(self) -> bool: ...

    def on_problem(self, error: str, /) -> None:
        """A request never came to the handler, for `error`."""

    def admit(self, connection: Connection) -> bool:
        """A new connection; whether there is room for it."""

    def begin(self, connection: Connection) -> None:
        """A part of a head has come."""

    def busy(self, connection: Connection) -> None:
        """A request is handled."""

    def rest(self, connection: Connection) -> None:
        """It waits for its next request."""

    def forget(self, connection: Connection) -> None:
        """It is gone."""


class Connection(asyncio.Protocol):
    """`deadline`: when `expire` is due, in the event loop's seconds.

    At any time it is in one of these: between requests; in a head; handling a request (`_request`), of which it may be
    gathering the body (`_gathering`); skipping a refused body (`_skip`); or lingering, with everything said.
    """

    __slots__ = (
        *("_advancing", "_broken", "_buffer", "_ended", "_gathering", "_heading", "_held", "_lingering"),
        *("_lost", "_peer", "_reading", "_request", "_scheduled", "_server", "_skip", "_transport", "_unread"),
        *("_writable", "deadline"),
    )

    def __init__(self, server: Listener) -> None:
        self.deadline = inf
        self._server = server
        self._peer: str | None = None
        self._buffer = Buffer()
        self._request: Request | None = None
        self._gathering: Gathering | None = None
        self._unread = False  # the request's body has not been asked for
        self._held = 0  # bytes of the request's body
        self._broken = False  # where the next request begins is not known
        self._skip = 0
        self._heading = False
        self._lingering = False
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
        if not self._server.admit(self):
            self._server.on_problem("overloaded")
            self._transport.write(render(failure(Problem("overloaded")), alive=False))
            self._lingering = True
            self._transport.close()
            return
        self.deadline = self._server.now + self._server.limits.head_seconds
        if self._server.draining:
            # Accepted at the very moment of the stop.
            self._transport.close()

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
        gathering = self._gathering
        if gathering is not None:
            rest = gathering.feed(data)
            self._account(gathering.size)
            if rest is None:
                return
            data = rest
        if data:
            self._buffer.add(data)
            self._advance()

    def eof_received(self) -> bool:
        """The peer sends no more, and may well wait for answers."""
        self._ended = True
        if self._gathering is not None:
            self._gathering.fail(Problem("incomplete_body"))
        if self._request is None and not self._buffer:
            return False
        self._advance()
        return not self._lingering

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._server.forget(self)
        if self._gathering is not None:
            self._gathering.fail(Problem("incomplete_body"))

    def pause_writing(self) -> None:
        """A sender that asks and never reads is not asked further, or its answers would fill the memory."""
        self._writable = False
        self.deadline = self._server.now + self._server.limits.write_seconds

    def resume_writing(self) -> None:
        self._writable = True
        if self._request is not None:
            self.deadline = inf
        elif not self._lingering:
            self._heading = False
            self._wait()
            self._advance()

    # What the server says.

    def expire(self) -> None:
        """The deadline has passed."""
        if self._gathering is not None:
            self._gathering.fail(Problem("timeout"))
        elif self._lingering or not self._writable:
            self._transport.abort()
        elif self._heading:
            self._fail(Problem("timeout"))
        else:
            self._transport.close()

    def look(self, now: float) -> None:
        """See whether the deadline has passed, or a body comes too slowly."""
        if now >= self.deadline or (self._gathering is not None and self._gathering.drips(now)):
            self.expire()

    @property
    def idle(self) -> bool:
        """Whether it waits for its next request, and nothing of that has come."""
        return self._request is None and not self._heading and not self._lingering and not self._skip

    def drain(self) -> None:
        """The server stops: close once nothing is under way."""
        if self.idle and not self._buffer:
            self.close()

    def close(self, *, at_once: bool = False) -> None:
        """End the connection; `at_once`: without what has not been sent yet."""
        if at_once:
            self._transport.abort()
        else:
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
        self._unread = head.length != 0
        self._request = request = Request(head, self._peer, self)
        self._server.busy(self)
        drive(self._server.handler(request), self._answer)
        return True

    def body(self, limit: int) -> bytes | asyncio.Future[bytes]:
        """The body of the request that is being handled, for `Request.read`. Raises `Problem`."""
        request = self._request
        assert request is not None
        if not self._unread:
            return b""
        length = request.head.length
        if length > limit:
            raise self._break(Problem("body_too_large"))
        self._unread = False
        if length != CHUNKED and len(self._buffer) >= length:
            body = self._buffer.take(length)
            if self._server.gathered + length > self._server.limits.gathered:
                raise self._break(Problem("overloaded"))
            self._account(length)
            return body
        if self._ended or self._lost:
            raise self._break(Problem("incomplete_body"))
        self._gathering = gathering = Gathering(length, limit, self._server.limits)
        self.deadline = gathering.begin(self._server.now, self._gathered)
        first = self._buffer.take(len(self._buffer))
        if first:
            rest = gathering.feed(first)
            self._account(gathering.size)
            if rest:
                self._buffer.add(rest)
        elif request.head.expects:
            self._transport.write(CONTINUE)
        self._read_or_not()
        return gathering.body

    def _break(self, problem: Problem) -> Problem:
        self._broken = True
        return problem

    def _gathered(self, *, whole: bool) -> None:
        """The body is whole, or will never be."""
        self._gathering = None
        self._broken = self._broken or not whole
        self.deadline = inf

    def _account(self, size: int) -> None:
        """`size` bytes of this request's body are held now."""
        server = self._server
        server.gathered += size - self._held
        self._held = size
        if server.gathered > server.limits.gathered and self._gathering is not None:
            self._gathering.fail(Problem("overloaded"))

    # Answers.

    def _answer(self, result: Response | BaseException) -> None:
        """Write the answer to the request that is handled, and go on with the next one."""
        request, self._request = self._request, None
        assert request is not None
        if self._held:
            self._server.gathered -= self._held
            self._held = 0
        if self._lost:
            return
        if not isinstance(result, Response):
            log.error("a request could not be handled", exc_info=result)
            result = failure(Problem("internal_error"))
        head = request.head
        behind = self._left_over(head)
        alive = head.keep_alive and not result.close and behind is not None and not self._server.draining
        self._transport.write(render(result, alive=alive, minor=head.minor, without_body=head.method == "HEAD"))
        if not alive:
            self._end()
            return
        if behind:
            self._skip = behind - len(self._buffer.take(behind))
        self._wait()
        if not self._advancing:
            self._advance()

    def _left_over(self, head: Head) -> int | None:
        """Bytes of the body that nobody asked for and that are worth reading to use the connection again; None when
        the connection has to end."""
        if self._broken:
            return None
        if not self._unread:
            return 0
        worth = 0 < head.length <= self._server.limits.discarded and not head.expects
        return head.length if worth else None

    def _fail(self, problem: Problem) -> None:
        """Answer what is no request, and end."""
        self._broken = True
        self._server.on_problem(problem.error)
        self._transport.write(render(failure(problem), alive=False))
        self._end()

    def _end(self) -> None:
        """Everything has been said. What the sender still sends is let pass for a while, or it could not read it."""
        self._lingering = True
        quiet = not (self._unread or self._broken or self._buffer)
        self._buffer = Buffer()
        if self._ended or (quiet and self._reading) or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._transport.write_eof()
        self._read_or_not()
        self.deadline = self._server.now + self._server.limits.linger_seconds + 1

    # Waiting.

    def _wait(self) -> None:
        """Nothing is under way: wait for the next request."""
        server = self._server
        if not self._writable:
            return
        if self._skip:
            self.deadline = server.now + server.limits.body_seconds
        elif server.draining:
            self._transport.close()
        else:
            self.deadline = server.now + server.limits.idle_seconds
            server.rest(self)

    def _await_more(self) -> None:
        """The next head is not here yet, or not whole."""
        if self._ended:
            self._transport.close()
        elif not self._buffer:
            if self._server.draining:
                self._transport.close()
        elif not self._heading:
            self._heading = True
            self._server.begin(self)
            self.deadline = self._server.now + self._server.limits.head_seconds

    def _read_or_not(self) -> None:
        """Read on unless what is here already has to wait."""
        busy = self._scheduled or (self._request is not None and self._gathering is None)
        reading = (self._lingering or self._writable) and not (busy and self._buffer)
        if reading != self._reading and not self._lost:
            self._reading = reading
            act: Callable[[], None] = self._transport.resume_reading if reading else self._transport.pause_reading
            act()
