"""A response: rendered once, written with a single call."""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from runtime.http.error import HttpError

JSON: Final = "application/json"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
# RFC 9110 sections 8.6, 15.3.5 and 15.4.5: such answers end with their head, and a length there would refer to another
# answer.
_WITHOUT_CONTENT: Final = frozenset((*range(100, 200), 204, 304))
_encode = msgspec.json.Encoder().encode


class Response(NamedTuple):
    """Answer of a handler. `extra`: further header lines, each with its CRLF. `close`: end the connection. With 204
    and 304 neither `content_type` nor `body` is sent."""

    status: int
    content_type: str
    body: bytes
    extra: bytes = b""
    close: bool = False


class RenderedResponse(web.StreamResponse):
    """A `Response` in the form that aiohttp sends: rendered once, written with a single call."""

    def __init__(self, response: Response, *, alive: bool, minor: int = 1, without_body: bool = False) -> None:
        """See `render`. aiohttp's own state is not created: it is for headers, which are in `response`."""
        self._keep_alive = alive
        self._data = render(response, alive=alive, minor=minor, without_body=without_body)

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Write the response. Raises ConnectionError if the connection has ended."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the connection has ended")
        transport.write(self._data)
        if request.protocol.writing_paused:
            await request.writer.drain()
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: `prepare` has written everything."""


def failure(problem: HttpError) -> Response:
    """Return the answer to a request with `problem`."""
    extra = b"Retry-After: 1\r\n" if problem.status == 503 else b""
    return Response(problem.status, JSON, refusal(problem.error, problem.message), extra, close=True)


def refusal(error: str, message: str) -> bytes:
    """Return the body of a refusal."""
    return _encode({"error": error, "message": message})


def render(response: Response, *, alive: bool, minor: int = 1, without_body: bool = False) -> bytes:
    """Render `response` (RFC 9112). `alive`: the connection is used again; `minor`: of the request's HTTP/1.x;
    `without_body`: the answer to HEAD."""
    status, content_type, body, extra, _ = response
    connection = b""
    if not alive:
        connection = b"Connection: close\r\n"
    elif minor == 0:
        connection = b"Connection: keep-alive\r\n"
    if status in _WITHOUT_CONTENT:
        return b"%b%b%b%b\r\n" % (_status_line(status), _date(int(time.time())), connection, extra)
    return b"%bContent-Length: %d\r\n%b%b%b\r\n%b" % (
        _head(status, content_type),
        len(body),
        _date(int(time.time())),
        connection,
        extra,
        b"" if without_body else body,
    )


@lru_cache(maxsize=64)
def _head(status: int, content_type: str) -> bytes:
    return _status_line(status) + f"Content-Type: {content_type}\r\n".encode()


def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return f"Date: {formatdate(second, usegmt=True)}\r\n".encode()
