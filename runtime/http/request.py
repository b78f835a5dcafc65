"""A request for a handler: its head has been read, its body has not."""

from __future__ import annotations

from aiohttp import StreamReader

from runtime.http.body import Bodies, BodyReader, Room
from runtime.http.client_network import network
from runtime.http.connection import Connection
from runtime.http.error import HttpError
from runtime.http.head import RequestHead
from runtime.http.response import CONTINUE


class Request:
    """`head`: see `RequestHead`. `peer`: the address at the socket's other end (a proxy's, if there is one); None for a
    socket without addresses. `failed`: its body is unavailable, so the start of the next request is unknown."""

    __slots__ = ("_bodies", "_body_requested", "_connection", "_content", "_room", "failed", "head", "peer")

    def __init__(self, head: RequestHead, content: StreamReader, connection: Connection, bodies: Bodies) -> None:
        self.head = head
        self.peer = connection.peer
        self.failed = False
        self._content = content
        self._connection = connection
        self._bodies = bodies
        self._body_requested = False
        self._room = Room(bodies)

    async def read(self, limit: int, sender: str | None = None) -> bytes:
        """Return the raw body; called once. It is not buffered before. `sender`: the address that it is from, if it is
        not shared by several senders.

        Raises `HttpError`: `body_too_large` if it has more than `limit` bytes, `timeout` and `incomplete_body` if it
        does not arrive, `malformed_request` if its chunks are wrong, `overloaded` if all bodies together are too large.
        After such an error the connection ends with the answer.
        """
        length = self.head.length
        if self._body_requested or not length:
            return b""
        self._body_requested = True
        try:
            if length > limit:
                raise HttpError("body_too_large")
            if length > 0 and self._content.is_eof():
                self._room.take(length)
                return self._content.read_nowait()
            return await self._gather(limit, sender)
        except HttpError:
            self.failed = True
            raise

    @property
    def room(self) -> Room:
        """The memory of its body."""
        return self._room

    def release(self) -> None:
        """Release the body's memory after the request has been handled."""
        self._room.release()

    def unread(self) -> int | None:
        """Return the bytes of the unread body that may still arrive; None if unknown."""
        if self.failed:
            return None
        if self._body_requested or self._content.is_eof():
            return 0
        return None if self.head.length < 0 or self.head.expects else self.head.length

    async def _gather(self, limit: int, sender: str | None) -> bytes:
        connection, bodies = self._connection, self._bodies
        connection.check_body()
        self._room.sender = network(sender)
        gathering = BodyReader(self._content, self.head.length, self._room, bodies.now)
        bodies.gathering.add(gathering)
        connection.begin_body(gathering)
        if self.head.expects and not self._content.total_bytes:
            connection.write(CONTINUE)
        try:
            return await gathering.all(limit)
        except BaseException:
            self._room.release()
            raise
        finally:
            bodies.gathering.discard(gathering)
            connection.end_body()
