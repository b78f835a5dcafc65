"""PostgreSQL connections with timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from runtime.database.errors import Unavailable
from runtime.database.location import DatabaseLocation

CONNECT_SECONDS = 5
"""Maximum seconds to open a connection."""

ANSWER_SECONDS = 6
"""Maximum seconds for one statement. A frozen server keeps its connections open and responds to nothing, not even to a
cancel request, so the connection is dropped."""

_TIMER = "symbiont_timer"
_LATE = "symbiont_late"


class PostgresConnections:
    """The engine for a PostgreSQL server, and all its open connections."""

    def __init__(self, location: DatabaseLocation, *, connections: int) -> None:
        self._location = location
        self._open: WeakSet[Any] = WeakSet()
        self.engine: AsyncEngine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self.connect,
            pool_size=connections,
            pool_timeout=CONNECT_SECONDS,
            # Errors must not show stored values.
            hide_parameters=True,
        )

    async def connect(self) -> Any:
        """Return a new asyncpg connection. Raises the errors of asyncpg."""
        import asyncpg

        # asyncpg reads libpq's URL form (sslmode, socket folders, passfile) itself.
        connection = await asyncpg.connect(self._location.dsn, timeout=CONNECT_SECONDS)
        self._open.add(connection)
        return connection

    def limit(self) -> None:
        """Drop a connection from now on if a statement takes more than ANSWER_SECONDS, and raise `Unavailable`.

        Not from the start: the migration of a large database may take longer.
        """
        engine = self.engine.sync_engine
        event.listen(engine, "before_cursor_execute", lambda connection, *_: self._start_timer(connection))
        event.listen(engine, "after_cursor_execute", lambda connection, *_: _stop_timer(connection.connection.info))
        event.listen(engine, "commit", self._start_timer)
        event.listen(engine, "rollback", self._start_timer)
        event.listen(engine, "handle_error", self._report_timeout)
        event.listen(engine.pool, "checkin", lambda _, record: _stop_timer(record.info))

    def terminate(self) -> None:
        """Drop every connection without waiting for a response."""
        for connection in list(self._open):
            connection.terminate()

    def _start_timer(self, connection: Any) -> None:
        if connection.invalidated:
            return
        info, driver = connection.connection.info, connection.connection.driver_connection
        _stop_timer(info)
        info[_TIMER] = asyncio.get_running_loop().call_later(ANSWER_SECONDS, _timeout_callback(info, driver))

    def _report_timeout(self, context: Any) -> None:
        """Report the timeout: the driver's error says only that the connection was closed."""
        if context.connection is None or context.connection.invalidated:
            return
        info = context.connection.connection.info
        _stop_timer(info)
        if info.pop(_LATE, False):
            raise Unavailable(f"{self._location.label}: no answer for {ANSWER_SECONDS} s")


def _timeout_callback(info: dict[str, Any], driver: Any) -> Callable[[], None]:
    def drop() -> None:
        info[_LATE] = True
        driver.terminate()

    return drop


def _stop_timer(info: dict[str, Any]) -> None:
    timer = info.pop(_TIMER, None)
    if timer is not None:
        timer.cancel()
