"""How many connections an aiohttp listener may have, which bounds neither their number nor what they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web


class Crowd:
    """Makes the connections of `runner`, at most `most` at a time.

    For one more the oldest goes of those on which no request is handled: they are idle, or have yet to send a whole
    head. When a request is handled on each of them, the new one is closed.
    """

    def __init__(self, runner: web.AppRunner, most: int) -> None:
        self._runner = runner
        self._most = most
        self._there: dict[_Connection, None] = {}
        self._handled: set[object] = set()
        runner.app.middlewares.append(self._note)

    def __call__(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        server = self._runner.server
        assert server is not None
        if len(self._there) >= self._most:
            oldest = next((each for each in self._there if each.inner not in self._handled), None)
            if oldest is None:
                return _Closed()
            del self._there[oldest]
            oldest.close()
        made = _Connection(server(), self._forget)
        self._there[made] = None
        return made

    def _forget(self, connection: _Connection) -> None:
        self._there.pop(connection, None)

    @web.middleware
    async def _note(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        protocol = request.protocol
        self._handled.add(protocol)
        try:
            return await handler(request)
        finally:
            self._handled.discard(protocol)


class _Connection(asyncio.Protocol):
    """Hands everything on to aiohttp's protocol, `inner`, and tells `forget` of the end."""

    def __init__(self, inner: asyncio.Protocol, forget: Callable[[_Connection], None]) -> None:
        self.inner = inner
        self._forget = forget
        self._closed = False
        self._transport: asyncio.BaseTransport | None = None
        self.data_received = inner.data_received  # type: ignore[method-assign]
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.inner.connection_made(transport)
        if self._closed:
            transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._forget(self)
        self.inner.connection_lost(error)

    def close(self) -> None:
        """End the connection, also one that is only just being made."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()


class _Closed(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
