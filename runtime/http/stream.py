"""A streamed response: chunks of an iterator, with backpressure and heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final

import structlog
from aiohttp import web

from runtime.http.connection import Connection

log = structlog.get_logger("symbiont.http")

LOOK_SECONDS: Final = 0.2
"""Interval in seconds of the check that the client is connected: aiohttp does not report disconnects."""
HEARTBEAT_SECONDS: Final = 10.0
"""Maximum silence of a stream with a heartbeat, in seconds."""


class StreamSender:
    """Sends the streams of one listener. `stop` ends all of them."""

    def __init__(self, *, look_seconds: float = LOOK_SECONDS, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        self._look_seconds = look_seconds
        self._heartbeat_seconds = heartbeat_seconds
        self._stopping = False

    async def stop(self, _application: web.Application) -> None:
        """End every stream; for `on_shutdown` of an application."""
        self._stopping = True

    async def send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        chunks: AsyncGenerator[bytes],
        *,
        heartbeat: bytes = b"",
        failure: bytes = b"",
        stopped: bytes = b"",
        silence: float | None = None,
    ) -> web.StreamResponse:
        """Answer `request` with `chunks`; each is requested after the previous one has been written.

        `heartbeat` is sent after `silence` seconds without a chunk, by default those of the sender. When the client
        leaves or the listener stops, `chunks` is cancelled and closed. `failure` is the last chunk after an exception,
        which is logged, `stopped` after a stop. If it is empty, the connection is closed in the middle, so that the
        client cannot take the answer for complete. Raises nothing, unless the request is cancelled.
        """
        last: bytes | None = b""
        try:
            async with aclosing(chunks):
                await response.prepare(request)
                async with asyncio.timeout(None) as scope:
                    await self._write(request, response, chunks, scope, heartbeat, silence or self._heartbeat_seconds)
        except TimeoutError:
            if not scope.expired():
                log.exception("stream_failed", path=request.path)
                last = failure or None
            else:
                last = None if client_left(request) else stopped or None
        except ConnectionError:
            last = None
        except Exception:
            log.exception("stream_failed", path=request.path)
            last = failure or None
        with suppress(ConnectionError):
            if last is not None:
                await response.write_eof(last)
            elif request.transport is not None:
                request.transport.abort()
        return response

    async def _write(
        self,
        request: web.Request,
        response: web.StreamResponse,
        chunks: AsyncGenerator[bytes],
        scope: asyncio.Timeout,
        heartbeat: bytes,
        silence: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        silent_since: float | None = loop.time()

        async def watch() -> None:
            """Expire `scope` when the client leaves or the listener stops; send heartbeats."""
            nonlocal silent_since
            with suppress(ConnectionError):
                while not self._stopping and not client_left(request):
                    await asyncio.sleep(self._look_seconds)
                    if heartbeat and silent_since is not None and loop.time() - silent_since > silence:
                        silent_since = loop.time()
                        await response.write(heartbeat)
            scope.reschedule(loop.time())

        watching = asyncio.create_task(watch(), name="stream")
        try:
            async for chunk in chunks:
                if chunk:
                    silent_since = None
                    await response.write(chunk)
                    silent_since = loop.time()
        finally:
            watching.cancel()


def client_left(request: web.Request) -> bool:
    """Return True if the client is gone. A client that sends no more counts as gone: a closed connection looks the same
    until something is written, and no client closes only its own side to wait for an answer."""
    transport, connection = request.transport, request.protocol
    return transport is None or transport.is_closing() or (isinstance(connection, Connection) and connection.at_eof)
