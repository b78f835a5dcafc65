"""Connections to PostgreSQL as the roles of users, bounded in all, and closed when they are idle."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import asyncpg

from runtime.database.location import DatabaseLocation
from runtime.tables.errors import TablesUnavailable
from runtime.tables.postgres.logins import Login
from runtime.tables.postgres.values import AS_TEXT
from runtime.tables.sql_database import MOST_SECONDS
from runtime.tables.statement import quoted

MOST: Final = 20
"""Maximum connections of this process, of all users together."""
MOST_OF_USER: Final = 3
CONNECT_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 60.0
MOST_BUSY_SECONDS: Final = 5.0
"""Seconds of work after which a connection is closed: the server's process keeps what it has cached, such as time
zones."""
MOST_RECEIVED: Final = 64 * 1024 * 1024
"""Maximum bytes that the server sends for a fetch of rows."""
_STATEMENTS: Final = 50
"""Prepared statements of a connection."""


class UserConnection:
    """A connection as the role of one user."""

    def __init__(self, raw: Any, login: Login) -> None:
        self.raw = raw
        self.login = login
        self.process = raw.get_server_pid()
        self.released_at = 0.0
        self.busy_seconds = 0.0
        self._received = _ReceiveLimit(raw._transport)
        self._prepared: OrderedDict[str, Any] = OrderedDict()

    @property
    def overflowed(self) -> bool:
        """True if the connection was dropped because of what the server sent."""
        return self._received.overflowed

    @property
    def received(self) -> int:
        """Bytes that the server sent since `expect`."""
        return self._received.count

    def expect(self) -> None:
        """Call before rows are fetched: the server may send MOST_RECEIVED bytes until the next call."""
        self._received.count = 0

    async def prepare(self, sql: str) -> Any:
        """Return the prepared statement. Raises the errors of asyncpg."""
        statement = self._prepared.get(sql)
        if statement is None:
            statement = self._prepared[sql] = await self.raw.prepare(sql)
            if len(self._prepared) > _STATEMENTS:
                self._prepared.popitem(last=False)
        else:
            self._prepared.move_to_end(sql)
        return statement

    def forget_prepared(self) -> None:
        """Prepare all statements again: tables have changed."""
        self._prepared.clear()


class _ReceiveLimit(asyncio.Protocol):
    """Passes what the server sends on to the driver, and drops the connection when it is too much: the driver keeps all
    of it in memory, of a row too whose length nobody expected."""

    def __init__(self, transport: Any) -> None:
        self.count = 0
        self.overflowed = False
        self._transport = transport
        self._driver = transport.get_protocol()
        transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        self.count += len(data)
        if self.count <= MOST_RECEIVED:
            self._driver.data_received(data)
        elif not self.overflowed:
            self.overflowed = True
            self._transport.abort()

    def eof_received(self) -> bool | None:
        return self._driver.eof_received()  # type: ignore[no-any-return]

    def connection_lost(self, exc: Exception | None) -> None:
        self._driver.connection_lost(exc)

    def pause_writing(self) -> None:
        self._driver.pause_writing()

    def resume_writing(self) -> None:
        self._driver.resume_writing()


class UserConnections:
    """Opens, keeps and closes the connections of all users. Of the idle ones the one is closed first that was used
    least recently."""

    def __init__(self, location: DatabaseLocation, *, most: int = MOST) -> None:
        self._dsn = location.dsn
        self._most = most
        self._open = 0
        self._used: Counter[str] = Counter()
        self._idle: OrderedDict[UserConnection, None] = OrderedDict()
        self._all: set[UserConnection] = set()
        self._changed = asyncio.Condition()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def number(self) -> int:
        """Number of open connections."""
        return self._open

    @asynccontextmanager
    async def of(self, login: Login) -> AsyncIterator[UserConnection]:
        """Yield a connection of a user that nobody else uses meanwhile. Raises `TablesUnavailable` if none gets free
        in time, and the errors of asyncpg if PostgreSQL refuses one."""
        try:
            async with asyncio.timeout(MOST_SECONDS):
                connection = await self._take(login)
        except TimeoutError:
            raise TablesUnavailable("all connections for SQL tables are busy", hint="try again") from None
        connection.expect()
        began = asyncio.get_running_loop().time()
        try:
            yield connection
        finally:
            connection.busy_seconds += asyncio.get_running_loop().time() - began
            await self._give_back(connection)

    async def forget(self, name: str) -> None:
        """Close the idle connections of a role."""
        async with self._changed:
            for connection in [each for each in self._idle if each.login.name == name]:
                self._drop(connection)

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._all):
            connection.raw.terminate()
        self._idle.clear()

    async def _take(self, login: Login) -> UserConnection:
        async with self._changed:
            while True:
                if self._closed:
                    raise TablesUnavailable("the tables are closed")
                if self._used[login.name] < MOST_OF_USER:
                    if (connection := self._take_idle(login)) is not None:
                        self._used[login.name] += 1
                        return connection
                    if self._open >= self._most and self._idle:
                        self._drop(next(iter(self._idle)))
                    if self._open < self._most:
                        break
                await self._changed.wait()
            self._open += 1
            self._used[login.name] += 1
        try:
            connection = await self._connect(login)
        except BaseException:
            async with self._changed:
                self._open -= 1
                self._release_login(login)
            raise
        self._all.add(connection)
        return connection

    def _take_idle(self, login: Login) -> UserConnection | None:
        for connection in reversed(self._idle):
            if connection.login == login:
                del self._idle[connection]
                if not connection.raw.is_closed():
                    return connection
                self._forget(connection)
                return self._take_idle(login)
        return None

    async def _give_back(self, connection: UserConnection) -> None:
        raw = connection.raw
        async with self._changed:
            self._release_login(connection.login)
            worn = connection.busy_seconds > MOST_BUSY_SECONDS
            if self._closed or worn or raw.is_closed() or raw.is_in_transaction():
                self._drop(connection)
            else:
                connection.released_at = asyncio.get_running_loop().time()
                self._idle[connection] = None
                self._schedule()

    def _release_login(self, login: Login) -> None:
        self._used[login.name] -= 1
        if not self._used[login.name]:
            del self._used[login.name]
        self._changed.notify_all()

    def _drop(self, connection: UserConnection) -> None:
        self._idle.pop(connection, None)
        connection.raw.terminate()
        self._forget(connection)

    def _forget(self, connection: UserConnection) -> None:
        self._all.discard(connection)
        self._open -= 1

    def _schedule(self) -> None:
        if self._timer is None and self._idle:
            oldest = next(iter(self._idle)).released_at
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(oldest + IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for connection in list(self._idle):
            if connection.released_at + IDLE_SECONDS <= now:
                self._drop(connection)
        self._schedule()

    async def _connect(self, login: Login) -> UserConnection:
        raw = await asyncpg.connect(
            self._dsn,
            user=login.name,
            password=login.password,
            timeout=CONNECT_SECONDS,
            server_settings=_settings(login.name),
        )
        try:
            for name in AS_TEXT:
                await raw.set_type_codec(name, schema="pg_catalog", encoder=str, decoder=str, format="text")
        except BaseException:
            with suppress(Exception):
                raw.terminate()
            raise
        return UserConnection(raw, login)


def _settings(name: str) -> dict[str, str]:
    milliseconds = str(int(MOST_SECONDS * 1000))
    return {
        "application_name": "symbiont tables",
        "search_path": quoted(name),
        "statement_timeout": milliseconds,
        "lock_timeout": str(int(MOST_SECONDS * 950)),  # before the statement's own time is over, for its own message
        "idle_in_transaction_session_timeout": str(int(MOST_SECONDS * 2000)),
        "work_mem": "4MB",
        # Only these keep in memory what is larger than that.
        "enable_hashjoin": "off",
        "enable_hashagg": "off",
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
        "standard_conforming_strings": "on",
        "client_encoding": "UTF8",
        "TimeZone": "UTC",
        "DateStyle": "ISO, YMD",
        "IntervalStyle": "iso_8601",
        "bytea_output": "hex",
    }
