"""Places of requests on the operators' listener: probes are answered whatever callers with a token do."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from runtime.api.rest.problem import Problem
from runtime.daemon.listeners.origin_check import problem_response
from runtime.http.body import Room
from runtime.http.connection import Connection
from runtime.http.error import HttpError

PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
PROBE_SHARE: Final = 8
"""One of so many connections is kept for probes: other requests have the rest."""


class RequestPlaces:
    """The running requests of a listener. Only their connections, and those of unread answers, do not give way to a new
    one; see `ConnectionTable`."""

    def __init__(self) -> None:
        self._running = 0

    @property
    def middleware(self) -> Middleware:
        """The middleware that refuses requests beyond the limit."""

        @web.middleware
        async def in_place(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.path in PROBES:
                return await handler(request)
            connection = request.protocol
            if isinstance(connection, Connection) and self._running >= connection.most - connection.most // PROBE_SHARE:
                later = (("Retry-After", "1"),)
                return problem_response(Problem("overloaded", "too many requests are running", headers=later))
            self._running += 1
            try:
                return await handler(request)
            finally:
                self._running -= 1

        return in_place


class RequestBody:
    """The body of one request, whose bytes count among those of its listener until `release`."""

    def __init__(self, request: web.Request, seconds: float) -> None:
        """`seconds`: in which it must arrive."""
        self._request = request
        self._seconds = seconds
        connection = request.protocol
        self._room = Room(connection.bodies) if isinstance(connection, Connection) else None

    async def read(self, largest: int) -> bytes:
        """Return the body. Raises Problem if it is too large, compressed, or does not arrive, and if the bodies of all
        requests together are too large."""
        request, body = self._request, bytearray()
        if any(coding.lower() != "identity" for coding in request.headers.getall("Content-Encoding", ())):
            raise Problem("unsupported_media_type", "compressed bodies are not supported")
        size = request.content_length or 0
        try:
            async with asyncio.timeout(self._seconds):
                while size <= largest and (part := await request.content.readany()):
                    body += part
                    size = max(size, len(body))
                    if self._room is not None:
                        self._room.take(len(part))
        except HttpError:
            later = (("Retry-After", "1"),)
            raise Problem("overloaded", "too many bodies are being received", headers=later) from None
        except (TimeoutError, web.RequestPayloadError, ConnectionError):
            raise Problem("malformed", "the body did not arrive") from None
        if size > largest:
            raise Problem("too_large", f"the body has more than {largest:,} bytes")
        return bytes(body)

    def release(self) -> None:
        """Release its memory after the request has been handled."""
        if self._room is not None:
            self._room.release()
