"""Notifications between the daemons on one PostgreSQL database: LISTEN and NOTIFY over a separate connection.

A notification only means "look": it has no content, and a daemon that misses one finds the same by polling a moment
later. So notifications may be lost with a connection, and several may be merged into one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog
from sqlalchemy import Connection, text

from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.keys import tables as key_tables

log = structlog.get_logger("symbiont.notifications")

INBOX: Final = "symbiont_inbox"
"""Sent when more deliveries wait than this daemon can run."""

WEBHOOKS: Final = "symbiont_webhooks"
"""Sent when webhooks were created, changed or deleted through the API."""

EVENTS: Final = "symbiont_events"
"""Sent when something happened in a run."""

KEYS: Final = key_tables.SCHEMA
"""Sent when keys were rotated, forgotten or wrapped with another master key."""

AGAIN_SECONDS: Final = 1.0
"""Seconds before reconnecting."""

ALIVE_SECONDS: Final = 10.0
"""Seconds between checks of the connection, because a network may drop one silently."""

ANSWER_SECONDS: Final = 5.0

PAUSE_SECONDS: Final = 0.05
"""Minimum seconds between notifications of one channel."""


def notify(connection: Connection, channel: str) -> None:
    """Notify all listeners when this transaction commits; on SQLite does nothing.

    Only for rare changes: on PostgreSQL, commits that notify wait for each other.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"channel": channel})


_NOTIFY = text("SELECT pg_notify(:channel, '')")


class Notifications:
    """Receives and sends notifications. `run` maintains the connection; on SQLite it does nothing."""

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
        """Call `callback` in the event loop for each notification on `channel` from other daemons, and after each
        reconnect, because notifications may have been lost. Must be called before `run`."""
        self._callbacks[channel] = callback

    def send(self, channel: str) -> None:
        """Notify the other daemons soon. Never waits and never fails; dropped if there is no connection.

        It uses its own transaction, because commits that notify would wait for each other.
        """
        if self._connection is not None:
            self._to_send.add(channel)
            self._pending.set()

    async def run(self) -> None:
        """Maintain a connection and serve it, until cancelled."""
        if self._database.kind != "postgresql":
            return
        away = False
        while True:
            try:
                await self._serve()
            except (Unavailable, TimeoutError) as error:
                if not away:
                    log.warning("notifications_unavailable", reason=str(error))
                away = True
            else:
                away = False
            await asyncio.sleep(self._again)

    async def _serve(self) -> None:
        """Receive and send over one connection, until it is lost."""
        connection = await self._database.session()
        lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: self._lose(lost))
            for channel in self._callbacks:
                await connection.add_listener(channel, self._receive)
            self._connection = connection
            log.debug("notifications_listening", channels=sorted(self._callbacks))
            for callback in self._callbacks.values():
                callback()
            while not lost.is_set():
                await self._send(connection)
        except Exception as error:
            # Any error of a broken connection: reconnect.
            if not _is_about_connection(error):
                raise
            log.info("notifications_connection_lost", reason=str(error) or type(error).__name__)
        finally:
            self._connection = None
            # Not `close`, which waits for a response.
            connection.terminate()

    async def _send(self, connection: Any) -> None:
        """Send the pending notifications, or check the connection if there are none for a while."""
        try:
            async with asyncio.timeout(self._alive):
                await self._pending.wait()
        except TimeoutError:
            await connection.execute("SELECT 1", timeout=ANSWER_SECONDS)
            return
        self._pending.clear()
        channels, self._to_send = self._to_send, set()
        for channel in channels:
            await connection.execute("SELECT pg_notify($1, '')", channel, timeout=ANSWER_SECONDS)
        await asyncio.sleep(PAUSE_SECONDS)

    def _receive(self, connection: Any, pid: int, channel: str, _payload: object) -> None:
        # Notifications of this connection are its own.
        if pid != connection.get_server_pid() and (callback := self._callbacks.get(channel)) is not None:
            callback()

    def _lose(self, lost: asyncio.Event) -> None:
        lost.set()
        self._connection = None
        self._pending.set()


def _is_about_connection(error: Exception) -> bool:
    return isinstance(error, (OSError, TimeoutError)) or type(error).__module__.split(".")[0] == "asyncpg"
