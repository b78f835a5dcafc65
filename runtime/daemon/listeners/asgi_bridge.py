"""An ASGI application (asgi.readthedocs.io, HTTP 2.5) behind an aiohttp handler, which streams its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Final

import structlog
from aiohttp import web

from runtime.http.stream import client_left

Message = MutableMapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

log = structlog.get_logger("symbiont.mcp")

LOOK_SECONDS: Final = 0.2
"""Interval in seconds of the check that the client is connected, while the application waits for it to leave."""

_OURS: Final = frozenset({b"connection", b"transfer-encoding", b"server", b"date"})
"""Headers of the connection, which aiohttp sets."""


async def bridge(
    application: Application, request: web.Request, body: bytes, more: Mapping[str, Any]
) -> web.StreamResponse:
    """Return the application's answer to `request`, whose body was read. `more`: added to its scope. Raises nothing,
    unless the request is cancelled."""
    exchange = _Exchange(request, body)
    try:
        await application({**_scope(request), **more}, exchange.receive, exchange.send)
    except Exception:
        log.exception("request_failed", path=request.path)
        exchange.drop()
    return exchange.response or web.Response(status=500)


def _scope(request: web.Request) -> dict[str, Any]:
    transport = request.transport
    peer, here = (transport and transport.get_extra_info(name) for name in ("peername", "sockname"))
    path = request.rel_url.raw_path
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.5"},
        "http_version": f"{request.version.major}.{request.version.minor}",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": path.encode("ascii", errors="replace"),
        "query_string": request.rel_url.raw_query_string.encode("ascii", errors="replace"),
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": tuple(peer[:2]) if peer else None,
        "server": tuple(here[:2]) if here else None,
    }


class _Exchange:
    """One request and its answer, as the two callables of ASGI."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self.response: web.StreamResponse | None = None
        self._request = request
        self._body: bytes | None = body
        self._ended = False

    async def receive(self) -> Message:
        """Return the body; after it, a disconnect message once the client left or has its answer."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        while not self._ended and not client_left(self._request):  # noqa: ASYNC110 - aiohttp does not report it
            await asyncio.sleep(LOOK_SECONDS)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Begin the answer, or send a part of it; does nothing if the client left, which `receive` reports."""
        with suppress(ConnectionError):
            await self._send(message)

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.response = web.StreamResponse(status=message["status"])
            for name, value in message.get("headers", ()):
                if name.lower() not in _OURS:
                    self.response.headers.add(name.decode("latin-1"), value.decode("latin-1"))
            await self.response.prepare(self._request)
        elif message["type"] == "http.response.body" and self.response is not None:
            if message.get("body"):
                await self.response.write(message["body"])
            if not message.get("more_body", False):
                self._ended = True
                await self.response.write_eof()

    def drop(self) -> None:
        """Close the connection in the middle of the answer, so that the client cannot take it for complete."""
        if not self._ended and self._request.transport is not None:
            self._request.transport.close()
