"""What bounds the connections of an aiohttp listener, which bounds neither their number nor what they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from aiohttp import web


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`connections` at a time. Times are seconds. `head`: from the opening of a connection, or the first byte of a
    later request, to the end of the head. `idle`: from the end of a handler to the next request, so also how long an
    answer may be left unread. While a handler runs it has its own deadlines, or none: it may be streaming."""

    connections: int = 64
    head: float = 10
    idle: float = 75


class Crowd:
    """Makes the connections of `runner`.

    For one too many the oldest goes of those on which no request is handled: they are idle, or have yet to send a
    whole head. When a request is handled on each of them, the new one is closed.
    """

    def __init__(self, runner: web.AppRunner, bounds: Bounds) -> None:
        self._runner = runner
        self._bounds = bounds
        # By aiohttp's protocol of each, the oldest first.
        self._there: dict[object, _Connection] = {}
        runner.app.middlewares.append(self._note)

    def __call__(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        server = self._runner.server
        assert server is not None
        if len(self._there) >= self._bounds.connections:
            oldest = next((each for each in self._there.values() if not each.handled), None)
            if oldest is None:
                return _Closed()
            del self._there[oldest.inner]
            oldest.end()
        made = _Connection(server(), self._bounds, self._forget)
        self._there[made.inner] = made
        return made

    def _forget(self, connection: _Connection) -> None:
        self._there.pop(connection.inner, None)

    @web.middleware
    async def _note(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        connection = self._there.get(request.protocol)
        if connection is None:
            return await handler(request)
        connection.begin()
        try:
            return await handler(request)
        finally:
            connection.rest()


class _Connection(asyncio.Protocol):
    """Hands everything on to aiohttp's protocol, `inner`, and tells `forget` of the end. `handled`: a handler runs."""

    def __init__(self, inner: asyncio.Protocol, bounds: Bounds, forget: Callable[[_Connection], None]) -> None:
        self.inner = inner
        self.handled = False
        self._bounds = bounds
        self._forget = forget
        self._resting = False
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's by their methods only.
        self._transport = cast("asyncio.Transport", transport)
        self.inner.connection_made(transport)
        if self._ended:
            transport.close()
        else:
            self._within(self._bounds.head)

    def data_received(self, data: bytes) -> None:
        if self._resting:
            self._resting = False
            self._within(self._bounds.head)
        self.inner.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        self._forget(self)
        self.inner.connection_lost(error)

    def begin(self) -> None:
        """A request is handled."""
        self.handled, self._resting = True, False
        self._stop_timer()

    def rest(self) -> None:
        """It has been; its answer is still to be sent."""
        self.handled, self._resting = False, True
        if not self._ended:
            self._within(self._bounds.idle)

    def end(self) -> None:
        """End the connection, also one that is only just being made, without what the peer has left unread."""
        self._ended = True
        self._stop_timer()
        if self._transport is None:
            return
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    def _within(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Closed(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
