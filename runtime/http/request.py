"""A request for a handler: its head has been read, its body has not."""

from __future__ import annotations

from aiohttp import StreamReader

from runtime.http.body import Bodies, BodyReader
from runtime.http.connection import Connection
from runtime.http.error import HttpError
from runtime.http.head import RequestHead
from runtime.http.response import CONTINUE


class Request:
    """`head`: see `RequestHead`. `peer`: the address at the socket's other end (a proxy's, if there is one); None for a
    socket without addresses. `failed`: its body is unavailable, so the start of the next request is unknown."""

    __slots__ = ("_asked", "_bodies", "_connection", "_content", "_held", "failed", "head", "peer")

    def __init__(self, head: RequestHead, content: StreamReader, connection: Connection, bodies: Bodies) -> None:
        self.head = head
        self.peer = connection.peer
        self.failed = False
        self._content = content
        self._connection = connection
        self._bodies = bodies
        self._asked = False
        self._held = 0  # bytes of the body that count in the total of all bodies

    async def read(self, limit: int) -> bytes:
        """Return the raw body; called once. It is not buffered before.

        Raises `HttpError`: `body_too_large` if it has more than `limit` bytes, `timeout` and `incomplete_body` if it
        does not arrive, `malformed_request` if its chunks are wrong, `overloaded` if all bodies together are too large.
        After such an error the connection ends with the answer.
        """
        length = self.head.length
        if self._asked or not length:
            return b""
        self._asked = True
        try:
            if length > limit:
                raise HttpError("body_too_large")
            if length > 0 and self._content.is_eof():
                return self._take(length)
            return await self._gather(limit)
        except HttpError:
            self.failed = True
            raise

    def let_go(self) -> None:
        """Release the body's memory after the request has been handled."""
        self._bodies.size -= self._held
        self._held = 0

    def unread(self) -> int | None:
        """Return the bytes of the unread body that may still arrive; None if unknown."""
        if self.failed:
            return None
        if self._asked or self._content.is_eof():
            return 0
        return None if self.head.length < 0 or self.head.expects else self.head.length

    def _take(self, length: int) -> bytes:
        """Return the part of the body that is already buffered."""
        if not self._bodies.reserve(length):
            raise HttpError("overloaded")
        self._held = length
        return self._content.read_nowait()

    async def _gather(self, limit: int) -> bytes:
        connection, bodies = self._connection, self._bodies
        connection.check_body()
        gathering = BodyReader(self._content, self.head.length, bodies, bodies.now)
        bodies.gathering.add(gathering)
        connection.begin_body(gathering)
        if self.head.expects and not self._content.total_bytes:
            connection.write(CONTINUE)
        try:
            body = await gathering.all(limit)
            self._held, gathering.size = gathering.size, 0
            return body
        finally:
            bodies.gathering.discard(gathering)
            gathering.let_go()
            connection.end_body()
