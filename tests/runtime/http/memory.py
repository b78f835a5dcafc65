"""A connection without a socket, which records the requests that its handler gets and the responses."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import NamedTuple

import msgspec

from runtime.http.error import HttpError
from runtime.http.head import RequestHead
from runtime.http.request import Request
from runtime.http.response import Response, failure
from runtime.http.server import Server

LARGEST = 64
"""Bytes of a body that the handler accepts."""

_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")


class _Transport(asyncio.Transport):
    """A transport that records what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1)})
        self.written = b""
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended
        self.written += data

    def is_closing(self) -> bool:
        return self.ended

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Do nothing: the test feeds the data."""

    def resume_reading(self) -> None:
        """Do nothing: it was never paused."""


class Exchange(NamedTuple):
    """`taken`: the head and body of each request that the handler received completely. `statuses`: of each response.
    `ended`: whether the connection was closed. `error`: of the last response, if it is a refusal."""

    taken: list[tuple[RequestHead, bytes]]
    statuses: list[int]
    ended: bool
    error: str | None


def exchange(*pieces: bytes) -> Exchange:
    """Send `pieces`, one after the other."""
    return asyncio.run(play(*pieces))


async def play(*pieces: bytes) -> Exchange:
    """Send `pieces`, one after the other, in the running event loop."""
    taken: list[tuple[RequestHead, bytes]] = []

    async def handle(request: Request) -> Response:
        if request.head.path == "/unread":
            return Response(404, "text/plain", b"")
        try:
            body = await request.read(LARGEST)
        except HttpError as problem:
            return failure(problem)
        taken.append((request.head, body))
        return Response(202, "text/plain", b"")

    server = Server(handle)
    await server.start(socket.create_server(("127.0.0.1", 0)))
    transport = _Transport()
    connection = server.accept()
    connection.connection_made(transport)
    for piece in pieces:
        connection.data_received(piece)
        await _settled()
    connection.connection_lost(None)
    await _settled()
    await server.close(0)
    last = transport.written.rpartition(b"\r\n\r\n")[2]
    error = msgspec.json.decode(last)["error"] if last.startswith(b'{"error"') else None
    statuses = [int(each) for each in _STATUS.findall(transport.written)]
    return Exchange(taken, [status for status in statuses if status != 100], transport.ended, error)


async def _settled() -> None:
    """Run everything that is ready."""
    for _ in range(16):
        await asyncio.sleep(0)
