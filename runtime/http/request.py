"""A request as a handler sees it: its head has been read, its body has not."""

from __future__ import annotations

from asyncio import Future
from typing import Protocol

from runtime.http.head import Head


class Source(Protocol):
    """Where a request's body comes from: its connection's `Intake`."""

    def body(self, head: Head, limit: int, /) -> bytes | Future[bytes]:
        """The body, at once when it is here already. Raises `Problem`."""


class Request:
    """`head`: see `Head`. `peer`: the address at the socket's other end, a proxy's where there is one; None for a
    socket without addresses."""

    __slots__ = ("_source", "head", "peer")

    def __init__(self, head: Head, peer: str | None, source: Source) -> None:
        self.head = head
        self.peer = peer
        self._source = source

    async def read(self, limit: int) -> bytes:
        """The raw body, called once. Nothing of it is kept before.

        Raises `Problem`: `body_too_large` when it has more than `limit` bytes, `timeout` and `incomplete_body` when it
        does not come, `malformed_request` when it is not chunked as it says, `overloaded` when all bodies together
        are too large. The connection ends after the answer then.
        """
        body = self._source.body(self.head, limit)
        return body if isinstance(body, bytes) else await body
