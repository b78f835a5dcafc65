"""Waking the other daemons of a PostgreSQL database: LISTEN and NOTIFY over a connection of its own.

A wake-up only says "look": it carries nothing, and whoever misses one finds the same a moment later by polling. So it
may be lost with a connection, and several may be one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog
from sqlalchemy import Connection, text

from runtime.database.connection import Database
from runtime.database.errors import Unavailable

log = structlog.get_logger("symbiont.notifications")

INBOX: Final = "symbiont_inbox"
"""More deliveries may wait than the daemon that says so has places for."""

WEBHOOKS: Final = "symbiont_webhooks"
"""The webhooks made at run time have changed."""

AGAIN_SECONDS: Final = 1.0
"""How long to wait before connecting again."""

ALIVE_SECONDS: Final = 10.0
"""How often the connection is tried: a network may swallow one without a word."""

ANSWER_SECONDS: Final = 5.0

PAUSE_SECONDS: Final = 0.05
"""How far apart wake-ups of one channel are sent, at least."""


def notify(connection: Connection, channel: str) -> None:
    """Wake whoever listens when this transaction commits; on SQLite nobody does.

    For what changes seldom: on PostgreSQL commits that notify wait for each other.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"channel": channel})


_NOTIFY = text("SELECT pg_notify(:channel, '')")


class Notifications:
    """Listens, and tells others. `run` keeps the connection; on SQLite it has nothing to do."""

    def __init__(self, database: Database, *, again: float = AGAIN_SECONDS, alive: float = ALIVE_SECONDS) -> None:
        """`again` and `alive`: seconds."""
        self._database = database
        self._again = again
        self._alive = alive
        self._callbacks: dict[str, Callable[[], None]] = {}
        self._to_send: set[str] = set()
        self._pending = asyncio.Event()
        self._connection: Any = None

    def listen(self, channel: str, callback: Callable[[], None]) -> None:
        """Call `callback`, in the event loop, when somebody else tells `channel`, and whenever the connection is new:
        something may have been told meanwhile. To be called before `run`."""
        self._callbacks[channel] = callback

    def send(self, channel: str) -> None:
        """Wake the daemons that listen, in a moment. Never waits and never fails; without a connection it is dropped.

        A transaction of its own: the commits of deliveries would otherwise wait for each other.
        """
        if self._connection is not None:
            self._to_send.add(channel)
            self._pending.set()

    async def run(self) -> None:
        """Keep a connection and serve it, until cancelled."""
        if self._database.kind != "postgresql":
            return
        away = False
        while True:
            try:
                await self._serve()
            except (Unavailable, TimeoutError) as error:
                if not away:
                    log.warning("no wake-ups from other daemons; looking every second instead", reason=str(error))
                away = True
            else:
                away = False
            await asyncio.sleep(self._again)

    async def _serve(self) -> None:
        """Listen and tell over one connection, until it is lost."""
        connection = await self._database.session()
        lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: self._lose(lost))
            for channel in self._callbacks:
                await connection.add_listener(channel, self._received)
            self._connection = connection
            log.debug("listening for wake-ups", channels=sorted(self._callbacks))
            for callback in self._callbacks.values():
                callback()
            while not lost.is_set():
                await self._send(connection)
        except Exception as error:
            # Whatever the driver says of a connection that breaks: the next one is tried.
            if not _is_about_connection(error):
                raise
            log.info("wake-ups are lost until the next connection", reason=str(error) or type(error).__name__)
        finally:
            self._connection = None
            # Not `close`, which waits for an answer.
            connection.terminate()

    async def _send(self, connection: Any) -> None:
        """Tell what is to be told, or try the connection when nothing is for a while."""
        try:
            await asyncio.wait_for(self._pending.wait(), self._alive)
        except TimeoutError:
            await connection.execute("SELECT 1", timeout=ANSWER_SECONDS)
            return
        self._pending.clear()
        channels, self._to_send = self._to_send, set()
        for channel in channels:
            await connection.execute("SELECT pg_notify($1, '')", channel, timeout=ANSWER_SECONDS)
        await asyncio.sleep(PAUSE_SECONDS)

    def _received(self, connection: Any, pid: int, channel: str, _payload: object) -> None:
        # What this very connection told is known here.
        if pid != connection.get_server_pid() and (callback := self._callbacks.get(channel)) is not None:
            callback()

    def _lose(self, lost: asyncio.Event) -> None:
        lost.set()
        self._connection = None
        self._pending.set()


def _is_about_connection(error: Exception) -> bool:
    return isinstance(error, (OSError, TimeoutError)) or type(error).__module__.split(".")[0] == "asyncpg"
