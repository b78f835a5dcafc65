"""A listener's connections: how many there may be, how long each may take, and how they end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from runtime.http.connection import Connection, Handler
from runtime.http.limits import Limits

SWEEP_SECONDS = 1.0
"""How often deadlines are looked at: one look for all of them costs less than a timer for each request."""


class Server:
    """Serves HTTP/1.1 on a bound socket.

    `connections`: all that are open. `gathered`: bytes of the bodies in hand. `now`: the event loop's time, at most a
    second old. `draining`: it has been asked to stop.
    """

    def __init__(
        self, handler: Handler, limits: Limits | None = None, *, on_problem: Callable[[str], None] = lambda error: None
    ) -> None:
        """`on_problem` is told of each request that never came to the handler: a key of `PROBLEMS`."""
        self.handler = handler
        self.on_problem = on_problem
        self.limits = limits or Limits()
        self.gathered = 0
        self.now = 0.0
        self.draining = False
        self.connections: set[Connection] = set()
        # Those between requests, and those with a part of a head; the one that has been so longest first.
        self._idle: dict[Connection, None] = {}
        self._heading: dict[Connection, None] = {}
        self._empty = asyncio.Event()
        self._listening: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def start(self, listener: socket.socket, *, backlog: int = 1024) -> None:
        """Accept connections on `listener`."""
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        self._timer = loop.call_later(SWEEP_SECONDS, self._sweep, loop)
        self._listening = await loop.create_server(lambda: Connection(self), sock=listener, backlog=backlog)

    async def close(self, seconds: float) -> None:
        """Accept no more, and wait for the requests under way, at most `seconds`; then cut off what is left."""
        self.draining = True
        if self._listening is not None:
            self._listening.close()
        for connection in list(self.connections):
            connection.drain()
        if self.connections:
            self._empty.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._empty.wait()
            except TimeoutError:
                for connection in list(self.connections):
                    connection.close(at_once=True)
                await self._empty.wait()
        if self._timer is not None:
            self._timer.cancel()

    # What connections say.

    def admit(self, connection: Connection) -> bool:
        """A new connection; whether there is room for it."""
        self.connections.add(connection)
        if len(self.connections) > self.limits.connections:
            # A head is mostly one packet: whoever keeps thousands of them unfinished keeps nobody out.
            oldest = next(iter(self._idle or self._heading), None)
            if oldest is None:
                return False
            self.busy(oldest)
            oldest.close()
        self._idle[connection] = None
        return True

    def begin(self, connection: Connection) -> None:
        """A part of a head has come."""
        self._idle.pop(connection, None)
        self._heading[connection] = None

    def busy(self, connection: Connection) -> None:
        """A request is handled."""
        self._idle.pop(connection, None)
        self._heading.pop(connection, None)

    def rest(self, connection: Connection) -> None:
        """It waits for its next request."""
        self._heading.pop(connection, None)
        self._idle[connection] = None

    def forget(self, connection: Connection) -> None:
        """It is gone."""
        self.connections.discard(connection)
        self.busy(connection)
        if not self.connections:
            self._empty.set()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = now = loop.time()
        for connection in list(self.connections):
            connection.look(now)
        self._timer = loop.call_later(SWEEP_SECONDS, self._sweep, loop)
