"""A listener: the number of its connections, their deadlines and their end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import StreamReader, web

from runtime.http.aiohttp_private import BareRequest, RawRequestMessage
from runtime.http.aiohttp_private import Server as AiohttpServer
from runtime.http.connection import Connection, ListenerState, Refuse, answer
from runtime.http.error import HttpError
from runtime.http.head import CHUNKED, head_of
from runtime.http.limits import HttpLimits
from runtime.http.request import Request
from runtime.http.response import RenderedResponse, Response

SWEEP_SECONDS = 1.0
"""Interval of the deadline checks in seconds: one check for all costs less than a timer for each request."""
END_SECONDS = 0.05
"""Seconds that a cancelled handler may take to end, twice, at the end of a stop."""

Handler = Callable[[Request], Awaitable[Response]]
"""Answers a request."""
Make = Callable[..., web.BaseRequest]
"""Creates aiohttp's request from its parser's output."""


class Listener(AiohttpServer):
    """aiohttp's server with limits, see `HttpLimits`. `shared`: state that its connections share."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        shared: ListenerState,
        make: Make | None = None,
    ) -> None:
        super().__init__(handler, request_factory=self._begin)
        self.shared = shared
        self._make = make or self.make_request
        shared.now = shared.bodies.now = self.loop.time()
        self._timer = self.loop.call_later(SWEEP_SECONDS, self._sweep)

    def __call__(self) -> Connection:
        return Connection(self, self.shared)

    def pre_shutdown(self) -> None:
        """Stop accepting connections, and close those without a running request."""
        self.shared.draining = True
        for connection in list(self.shared.open):
            connection.drain()

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - aiohttp's name
        """Wait for running requests, at most `timeout` seconds; then cut off the rest."""
        shared = self.shared
        if shared.open:
            shared.empty.clear()
            try:
                async with asyncio.timeout(timeout):
                    await shared.empty.wait()
            except TimeoutError:
                await super().shutdown(END_SECONDS)
                for connection in list(shared.open):
                    connection.abort()
                if shared.open:
                    await shared.empty.wait()
        self._timer.cancel()

    def _begin(
        self, message: RawRequestMessage, payload: StreamReader, protocol: web.RequestHandler, *more: Any
    ) -> web.BaseRequest:
        assert isinstance(protocol, Connection)
        protocol.begin(payload, chunked=bool(message.chunked))
        return self._make(message, payload, protocol, *more)

    def _sweep(self) -> None:
        shared = self.shared
        shared.now = shared.bodies.now = now = self.loop.time()
        for connection in list(shared.open):
            connection.check_deadlines(now)
        self._timer = self.loop.call_later(SWEEP_SECONDS, self._sweep)


class Server:
    """Serves HTTP/1.1 on a bound socket.

    `connections`: the open ones. `bodies`: those in memory.
    """

    def __init__(
        self,
        handler: Handler,
        limits: HttpLimits | None = None,
        *,
        refuse: Refuse = answer,
        behind_proxies: bool = False,
    ) -> None:
        """`refuse` answers requests that never reached the handler. `behind_proxies`: the peer is a proxy, so its
        address does not identify the client."""
        self._handler = handler
        self._shared = ListenerState(limits or HttpLimits(), refuse, behind_proxies)
        self.limits = self._shared.limits
        self.bodies = self._shared.bodies
        self.connections = self._shared.open
        self._listener: Listener | None = None
        self._listening: asyncio.Server | None = None

    async def start(self, listener: socket.socket, *, backlog: int = 1024) -> None:
        """Accept connections on `listener`."""
        self._listener = Listener(self._handle, self._shared, make=BareRequest)
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self.accept, sock=listener, backlog=backlog)

    def accept(self) -> Connection:
        """Return the protocol of a new connection."""
        assert self._listener is not None
        return self._listener()

    async def close(self, seconds: float) -> None:
        """Stop accepting, and wait for running requests, at most `seconds`; then cut off the rest."""
        if self._listener is None or self._listening is None:
            return
        self._listening.close()
        self._listener.pre_shutdown()
        await self._listener.shutdown(seconds)

    async def _handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(raw, BareRequest)
        connection = raw.protocol
        assert isinstance(connection, Connection)
        try:
            head = head_of(raw.parsed, self.limits)
        except HttpError as problem:
            return connection.error_response(problem)
        request = Request(head, raw.body, connection, self.bodies)
        try:
            response = await self._handler(request)
        finally:
            request.release()
        unread = request.unread()
        alive = (
            head.keep_alive
            and head.length != CHUNKED  # see `Connection.finish_response`
            and not response.close
            and unread is not None
            and unread <= self.limits.skipped_body
            and not self._shared.draining
        )
        return RenderedResponse(response, alive=alive, minor=head.minor, without_body=head.method == "HEAD")
