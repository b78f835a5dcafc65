"""A listener's connections: how many there may be, how long each may take, and how they end."""

from __future__ import annotations

import asyncio
import socket

from runtime.http.address import network
from runtime.http.body import Bodies
from runtime.http.connection import Connection
from runtime.http.crowd import Crowd, Group
from runtime.http.limits import Limits
from runtime.http.listener import Handler, Link, Refuse
from runtime.http.problem import Problem
from runtime.http.response import Response, failure

SWEEP_SECONDS = 1.0
"""How often deadlines are looked at: one look for all of them costs less than a timer for each request."""


def _say(problem: Problem, _peer: str | None) -> Response:
    return failure(problem)


class Server:
    """Serves HTTP/1.1 on a bound socket.

    `connections`: all that are open. `bodies`: those in hand. `now`: the event loop's time, at most a second old.
    `draining`: it has been asked to stop.
    """

    def __init__(
        self, handler: Handler, limits: Limits | None = None, *, refuse: Refuse = _say, behind_proxies: bool = False
    ) -> None:
        """`refuse` answers each request that never came to the handler. `behind_proxies`: the address at the other end
        is that of a proxy of ours, so it says nothing of who it is that holds many connections."""
        self.handler = handler
        self.refuse = refuse
        self.limits = limits or Limits()
        self.now = 0.0
        self.bodies = Bodies(self.limits, self)
        self.draining = False
        self.connections: set[Link] = set()
        self._behind_proxies = behind_proxies
        self._crowd = Crowd(self.limits.connections)
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

    def admit(self, connection: Link, peer: str | None) -> Group | None:
        """A new connection; None when there is no room for it."""
        self.connections.add(connection)
        return self._crowd.join(connection, None if self._behind_proxies else network(peer))

    def forget(self, connection: Link, group: Group | None) -> None:
        """It is gone. `group`: where it still counts."""
        self.connections.discard(connection)
        if group is not None:
            self._crowd.leave(connection, group)
        if not self.connections:
            self._empty.set()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = now = loop.time()
        for connection in list(self.connections):
            connection.look(now)
        self._timer = loop.call_later(SWEEP_SECONDS, self._sweep, loop)
