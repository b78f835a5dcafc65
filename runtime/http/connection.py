"""One connection: aiohttp's, with limits that aiohttp does not have.

aiohttp reads requests and passes them on one at a time, in order. Added are: limits on the time of a head, an idle
connection and an unread answer; eviction when all connections are in use; answers on a half-closed connection; no
reading ahead of the handled request; and a refusal that arrives before the connection ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import Any, Final, cast

import structlog
from aiohttp import StreamReader, web

from runtime.http.aiohttp_private import MAX_MSG_QUEUE_SIZE, LineTooLong, RawRequestMessage, RequestHandler
from runtime.http.body import Bodies, BodyReader
from runtime.http.client_network import network
from runtime.http.connection_table import AddressGroup, ConnectionTable
from runtime.http.error import HttpError
from runtime.http.limits import HttpLimits
from runtime.http.response import RenderedResponse, Response, failure, render

log = structlog.get_logger("symbiont.http")

READ_AT_ONCE: Final = 64 * 1024
"""Bytes of a body that aiohttp buffers before it pauses reading, and a sixteenth as many chunks."""
NEVER: Final = 365 * 24 * 3600.0
"""aiohttp's own limit of idle connections, in seconds; the limit of this module is shorter."""
TURNED_AWAY: Final = 64
"""Connections beyond the limit that may read their refusal; further ones are closed at once."""

Refuse = Callable[[HttpError, str | None], Response]
"""Answers input that never became a request, given its error and the peer's address."""


def answer(problem: HttpError, _peer: str | None) -> Response:
    """Return the answer to `problem`."""
    return failure(problem)


class State(Enum):
    """State of a connection. `IDLE`: nothing of a next request has arrived. `HEAD`: a part of a head has. `WORKING`:
    a request is handled, or its body awaited. `SKIPPING`: the rest of a refused body is read. `LINGERING`: the last
    answer was sent, and further input is discarded. `GONE`: it has ended."""

    IDLE = auto()
    HEAD = auto()
    WORKING = auto()
    SKIPPING = auto()
    LINGERING = auto()
    GONE = auto()


@dataclass(slots=True)
class ListenerState:
    """State that the connections of one listener share. `now`: the event loop's time, at most a second old.
    `draining`: the listener stops. `empty`: no connection is open."""

    limits: HttpLimits
    refuse: Refuse = answer
    behind_proxies: bool = False
    now: float = 0.0
    draining: bool = False
    open: set[Connection] = field(default_factory=set)
    empty: asyncio.Event = field(default_factory=asyncio.Event)
    bodies: Bodies = field(init=False)
    connection_table: ConnectionTable[Connection] = field(init=False)

    def __post_init__(self) -> None:
        self.bodies = Bodies(self.limits)
        self.connection_table = ConnectionTable(self.limits.connections, Connection.evict)


class Connection(RequestHandler):
    """`deadline`: when `expire` is due, in the event loop's seconds. `peer`: the address at the other end."""

    __slots__ = (
        *("_at_eof", "_chunked", "_content", "_early", "_gathering", "_group", "_head_size", "_linger_end", "_link"),
        *("_on_hold", "_request_failed", "_shared", "_state", "deadline", "peer"),
    )

    def __init__(self, server: web.Server, shared: ListenerState) -> None:
        limits = shared.limits
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=NEVER,
            tcp_keepalive=False,
            access_log=cast("Any", None),
            lingering_time=limits.linger_seconds,
            read_bufsize=READ_AT_ONCE,
        )
        self.parse_with(READ_AT_ONCE, line=limits.line, head=limits.head, fields=limits.fields)
        self.deadline = inf
        self.peer: str | None = None
        self._shared = shared
        self._state = State.IDLE
        self._group: AddressGroup[Connection] | None = None
        self._content: StreamReader | None = None  # of the current or last request
        self._chunked = False
        self._gathering: BodyReader | None = None
        self._early = 0  # bytes of the body that were received before the handler asked for it
        self._head_size = 0
        self._at_eof = False  # the peer closed its side
        self._on_hold = False  # reading is paused until the buffered input is handled
        self._request_failed = False  # the input was not HTTP
        self._linger_end: asyncio.Future[None] | None = None

    @property
    def idle(self) -> bool:
        """True if it waits for its next request, and nothing of it has arrived."""
        return self._state is State.IDLE

    @property
    def at_eof(self) -> bool:
        """True if the peer has closed its side."""
        return self._at_eof

    @property
    def most(self) -> int:
        """The maximum number of connections of its listener."""
        return self._shared.limits.connections

    @property
    def bodies(self) -> Bodies:
        """The bodies in memory on all connections of its listener."""
        return self._shared.bodies

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have asyncio's methods but not its types.
        self._link = cast("asyncio.Transport", transport)
        shared = self._shared
        peer = transport.get_extra_info("peername")
        self.peer = peer[0] if isinstance(peer, tuple) else None
        shared.open.add(self)
        shared.empty.clear()
        self._group = shared.connection_table.join(self, None if shared.behind_proxies else network(self.peer))
        if self._group is None:
            self._at_eof = len(shared.open) > shared.limits.connections + TURNED_AWAY
            self.refuse(HttpError("overloaded"))
            return
        super().connection_made(transport)
        self.deadline = shared.now + shared.limits.head_seconds
        if shared.draining:
            # Accepted at the moment of the stop.
            self.force_close()

    def data_received(self, data: bytes) -> None:
        if self._state is State.LINGERING:
            return
        # The body that this data may be part of.
        content = self.queued[-1][1] if self.queued else self._content
        if content is not None and content.is_eof():
            content = None
        if not self._parse(data, content):
            return
        if content is not None and not content.is_eof():
            self._note_body(content, len(data))
        elif self._state is State.WORKING:
            if content is None or self.queued:
                self._hold()
        elif self.queued:
            self._work()
            if len(self.queued) > 1:
                self._hold()
        elif content is not None:
            self._rest(unread=False)
        else:
            self._read_head(len(data))

    def eof_received(self) -> bool:  # type: ignore[override]
        """Handle the end of the peer's input; the peer may still wait for answers."""
        self._at_eof = True
        if self._state is State.LINGERING:
            self._link.close()
        elif self._gathering is not None:
            self._gathering.fail(HttpError("incomplete_body"))
        elif self._state is not State.WORKING:
            self.force_close()
        # The connection is closed here and nowhere else.
        return True

    def connection_lost(self, exc: BaseException | None) -> None:
        shared = self._shared
        self._state = State.GONE
        self.deadline = inf
        shared.open.discard(self)
        if not shared.open:
            shared.empty.set()
        if self._group is not None:
            shared.connection_table.leave(self, self._group)
            self._group = None
        if self._gathering is not None:
            self._gathering.fail(HttpError("incomplete_body"))
        if self._linger_end is not None and not self._linger_end.done():
            self._linger_end.set_result(None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Stop handling requests of a client that does not read its answers, or they would fill the memory."""
        super().pause_writing()
        self.deadline = self._shared.now + self._shared.limits.write_seconds
        if self._group is not None:
            self._group.wait(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._state is State.WORKING:
            self.deadline = inf
            if self._group is not None and self._gathering is None:
                self._group.work(self)

    def resume_reading(self, resume_parser: bool = True) -> None:
        # Bodies call it at their end and at each read; usually reading was not paused for them, and then `_hold` stays
        # in effect.
        if self.reading_paused:
            super().resume_reading(resume_parser)

    # Calls of the listener.

    def check_deadlines(self, now: float) -> None:
        """Check the deadlines of the connection and of its body."""
        if now >= self.deadline:
            self.expire()
        elif self._gathering is not None and self._gathering.is_late(now, self._shared.limits):
            self._gathering.fail(HttpError("timeout"))

    def expire(self) -> None:
        """Handle an expired deadline."""
        if self._state is State.LINGERING or self.writing_paused:
            self._link.abort()
        elif self._state is State.HEAD:
            self.refuse(HttpError("timeout"))
        else:
            self.force_close()

    def evict(self) -> None:
        """Free the place for another connection: close immediately, or answer a sender whose body is incomplete."""
        self._group = None
        if self._gathering is not None:
            self._gathering.fail(HttpError("overloaded"))
        elif self._state is State.LINGERING or self.writing_paused:
            self._link.abort()
        else:
            self.force_close()

    def drain(self) -> None:
        """Close as soon as no request is running: the listener stops."""
        if self._state is State.IDLE:
            self.force_close()

    def abort(self) -> None:
        """Close without sending the rest."""
        self._link.abort()

    # Requests.

    def begin(self, content: StreamReader, *, chunked: bool) -> None:
        """Begin a request with this body."""
        self._content = content
        self._chunked = chunked
        if self._on_hold and not content.is_eof():
            self._read_on()

    def check_body(self) -> None:
        """Raise `HttpError` for a body that can no longer be completed."""
        if self._content is not None and not self._content.is_eof():
            if self.queued:
                raise HttpError("malformed_request")
            if self._at_eof or self._state is State.GONE:
                raise HttpError("incomplete_body")

    def begin_body(self, gathering: BodyReader) -> None:
        """Begin waiting for a body."""
        self._gathering = gathering
        gathering.note(self._early)
        if self._group is not None:
            self._group.wait(self)

    def end_body(self) -> None:
        """End waiting for a body, complete or not."""
        self._gathering = None
        if self._group is not None and not self.writing_paused:
            self._group.work(self)

    def write(self, data: bytes) -> None:
        """Write data immediately, before the answer."""
        self._link.write(data)

    def refuse(self, problem: HttpError) -> None:
        """Answer input that never became a request, and close."""
        self._link.write(render(self._shared.refuse(problem, self.peer), alive=False))
        self._linger()

    def error_response(self, problem: HttpError) -> web.StreamResponse:
        """Return the answer to invalid input; the connection ends after it."""
        self._request_failed = True
        return RenderedResponse(self._shared.refuse(problem, self.peer), alive=False)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Return the answer to invalid input (400), or to a failure of the handler."""
        if status == 400:
            return self.error_response(_problem(exc, self._shared.limits))
        self._request_failed = True
        log.error("request_failed", exc_info=exc)
        if request.writer.output_size:
            raise ConnectionResetError("part of another answer has been sent")
        return RenderedResponse(failure(HttpError("internal_error")), alive=False)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if self._chunked:
            # aiohttp's parser keeps the last line of a trailer, and reads it as the first header of the next request.
            resp.force_close()
        answered = await super().finish_response(request, resp, start_time)
        self._early = 0
        if self._state is State.GONE or answered[1]:
            return answered
        content = self._content
        unread = content is not None and not content.is_eof()
        if not resp.keep_alive:
            input_left = unread or self._request_failed or self.queued or self._on_hold
            if input_left and not self._at_eof and self._group is not None:
                await self._wait_to_be_read()
            elif unread:
                self.force_close()
        elif not self.queued:
            if self._at_eof or self._shared.draining:
                self.close()
            self._rest(unread=unread)
        return answered

    # The next step.

    def _parse(self, data: bytes, content: StreamReader | None) -> bool:
        """Queue the received requests, as many as aiohttp allows; it asks for more itself. `content`: the incomplete
        body. Returns True unless there was nothing new, or the connection ended."""
        messages, receive = self.queued, super().data_received
        before = len(messages)
        try:
            receive(data)
            ended = content is not None and content.is_eof()
            while ended or (
                before < len(messages) < MAX_MSG_QUEUE_SIZE and isinstance(messages[-1][0], RawRequestMessage)
            ):
                ended, before = False, len(messages)
                receive(b"")
        except Exception:
            # Errors that the parser does not handle itself, such as a target that cannot be parsed.
            log.exception("request_unreadable")
            if self._state is State.WORKING or messages:
                self._link.abort()
            else:
                self.refuse(HttpError("malformed_request"))
            return False
        return bool(data)

    def _note_body(self, content: StreamReader, size: int) -> None:
        """Count `size` received bytes of an incomplete body."""
        if self._gathering is not None:
            self._gathering.note(size)
            if self.queued and self.queued[-1][1] is not content:
                # Only an error can follow it.
                self._gathering.fail(HttpError("malformed_request"))
        elif self._state is State.WORKING:
            self._early += size

    def _work(self) -> None:
        """Begin to handle a complete request: the connection does not wait for its peer."""
        self._state = State.WORKING
        self._head_size = 0
        self.deadline = inf
        if self._group is not None:
            self._group.work(self)

    def _rest(self, *, unread: bool) -> None:
        """Wait for the next request; first for the rest of an unread body."""
        limits = self._shared.limits
        self._state = State.SKIPPING if unread else State.IDLE
        self.deadline = self._shared.now + (limits.body_seconds if unread else limits.idle_seconds)
        if self._group is not None:
            if unread:
                self._group.wait(self)
            else:
                self._group.rest(self)
        self._read_on()

    def _read_on(self) -> None:
        if self._on_hold:
            self._on_hold = False
            self.resume_transport()

    def _hold(self) -> None:
        """Pause reading until the present input has been handled."""
        self._on_hold = True
        self.pause_transport()

    def _read_head(self, size: int) -> None:
        """Count `size` received bytes of a head."""
        if self._state is not State.HEAD:
            self._state = State.HEAD
            self.deadline = self._shared.now + self._shared.limits.head_seconds
            if self._group is not None:
                self._group.wait(self)
        self._head_size += size
        if self._head_size > self._shared.limits.head:
            self.refuse(HttpError("headers_too_large"))

    async def _wait_to_be_read(self) -> None:
        """Give the sender time to read the refusal before the connection ends."""
        self._linger_end = self.loop.create_future()
        self._linger()
        await self._linger_end
        self.force_close()

    def _linger(self) -> None:
        """Discard further input for a while after the last answer, so that the sender can read it."""
        self._state = State.LINGERING
        self.deadline = self._shared.now + self._shared.limits.linger_seconds + 1
        if self._group is not None:
            self._group.wait(self)
        if self._at_eof or not self._link.can_write_eof():
            self._link.close()
            return
        self._link.write_eof()
        # Reasons for paused reading no longer apply.
        self.resume_transport()


def _problem(error: BaseException | None, limits: HttpLimits) -> HttpError:
    """Convert a parser error. Its own message repeats the input after an empty line."""
    if isinstance(error, LineTooLong):
        return HttpError("target_too_long" if error.args[1] == limits.line else "headers_too_large")
    text = str(getattr(error, "message", "")).partition("\n\n")[0]
    for word, name in _WORDS.items():
        if word in text:
            return HttpError(name)
    return HttpError("malformed_request")


_WORDS: Final = {
    "Too many headers": "headers_too_large",
    "HTTP version": "version_not_supported",
    "PRI/Upgrade": "version_not_supported",
    "Content-Length": "ambiguous_length",
    "Transfer-Encoding": "ambiguous_length",
    "'Host'": "ambiguous_host",
}
