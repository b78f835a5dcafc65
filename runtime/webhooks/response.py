"""An answer on its way out: rendered once, written in one piece.

aiohttp builds the head of its own responses anew from a multidict; for the few fixed answers of a receiver that is a
third of the whole cost of a request.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

from aiohttp import HttpVersion10, web

from runtime.webhooks.answer import Answer


class Response(web.StreamResponse):
    """A whole `Answer` as bytes (RFC 9112), with `extra` header lines. `close` ends the connection after it."""

    __slots__ = ("_alive", "_answer", "_extra")

    def __init__(self, answer: Answer, *, extra: bytes = b"", close: bool = False) -> None:
        # aiohttp asks its responses for `prepare`, `write_eof` and `keep_alive`, and nothing else of what its own
        # constructor makes.
        self._answer = answer
        self._extra = extra
        self._alive = not close

    @property
    def status(self) -> int:
        """The answer's status code."""
        return self._answer.status

    @property
    def keep_alive(self) -> bool:
        """Whether the connection is used again."""
        return self._alive

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write the answer. Raises ConnectionResetError when the sender went away."""
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the sender went away")
        self._alive = self._alive and request.keep_alive
        answer = self._answer
        head = _head(answer.status, answer.content_type)
        body = b"" if request.method == "HEAD" else answer.body
        connection = b""
        if not self._alive:
            connection = b"Connection: close\r\n"
        elif request.version == HttpVersion10:
            connection = b"Connection: keep-alive\r\n"
        transport.write(
            b"%bContent-Length: %d\r\n%b%b%b\r\n%b"
            % (head, len(answer.body), _date(int(time.time())), connection, self._extra, body)
        )
        if request.protocol.writing_paused:
            # A sender that asks and never reads is not asked further, or its answers would fill the memory.
            await request.writer.drain()

    async def write_eof(self, data: bytes = b"") -> None:
        """Everything has been written."""


@lru_cache(maxsize=64)
def _head(status: int, content_type: str) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {content_type}\r\n".encode()


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return f"Date: {formatdate(second, usegmt=True)}\r\n".encode()
