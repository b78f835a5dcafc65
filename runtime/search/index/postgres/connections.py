"""Connections to one PostgreSQL, and transactions on the schema of one index."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg
import structlog

from runtime.database.location import locate
from runtime.errors import UsageError
from runtime.search.errors import IndexFailed
from runtime.search.index.postgres.errors import RebuildNeeded, index_error, is_connection_lost, is_table_missing
from runtime.search.index.postgres.schema import CreatedTables, ensure_tables, lock_of
from runtime.search.index.postgres.text import quoted

T = TypeVar("T")
Work = Callable[[Any], Awaitable[T]]
"""Runs in a transaction, with its connection."""

_DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
TRIES: Final = 3
_SLACK = 5.0
"""Seconds after the server's own limit at which a statement is cancelled here too: the server may be gone."""
_IDLE_SECONDS = 60
"""Maximum seconds that a transaction may be idle: a stopped daemon must not hold the lock forever."""
_log = structlog.get_logger("symbiont.index")


class IndexConnections:
    """One schema on one server. It connects at the first use, and again after a lost connection.

    Every method raises IndexFailed, with the host and the database but never a password.
    """

    def __init__(self, url: str, schema: str, name: str, *, pool: int, seconds: float) -> None:
        """Makes no connection. Raises UsageError for an invalid URL of a PostgreSQL."""
        try:
            location = locate(url.strip())
            is_postgresql = location.kind == "postgresql"
        except UsageError:
            is_postgresql = False
        if not is_postgresql:
            raise UsageError(
                "the url of the index postgres is not a PostgreSQL URL",
                hint="write postgresql://USER:PASSWORD@HOST:PORT/NAME, best in a secret",
            )
        self.shown = location.label
        self.schema = schema
        self.seconds = seconds
        self.tables = CreatedTables((), "public")
        self._dsn = location.dsn
        self._name = name
        self._size = pool
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._known = False

    async def query(self, work: Work[T]) -> T:
        """Run `work`, a single statement that reads."""
        return await self._retry(lambda: self._run(work, contextlib.nullcontext))

    async def read(self, work: Work[T]) -> T:
        """Run `work`, several statements that read one consistent state, beside writers."""
        return await self._retry(lambda: self._run(work, _read_transaction))

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction, exclusively among all daemons."""

        async def with_lock(connection: Any) -> T:
            await connection.execute("SELECT pg_advisory_xact_lock($1)", lock_of(self.schema))
            return await work(connection)

        return await self._retry(lambda: self._run(with_lock, _write_transaction))

    def check(self) -> None:
        """Raise IndexFailed if it is closed."""
        if self._closed:
            raise IndexFailed(f"the index in {self.shown} is closed")

    async def close(self) -> None:
        """Wait for running operations, then close every connection."""
        if self._closed:
            return
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            await _close_pool(pool, self.seconds)

    async def _retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for left in reversed(range(TRIES)):
            self.check()
            try:
                return await attempt()
            except IndexFailed:
                raise
            except RebuildNeeded as error:
                if not left:
                    raise IndexFailed(
                        f"the index in {self.shown} disappears immediately after its creation: {error}"
                    ) from None
                self._discard_pool(error.pool)
            except (TimeoutError, *_DRIVER_ERRORS, OSError, ValueError) as error:
                if left and is_connection_lost(error):
                    await self._expire_connections()
                    continue
                raise index_error(error, self.shown) from None
        raise AssertionError("the last try returns or raises")

    async def _run(self, work: Work[T], transaction: Callable[[Any], Any]) -> T:
        pool = await self._ready_pool()
        try:
            connection = await pool.acquire(timeout=self.seconds)
        except TimeoutError:
            if pool.get_idle_size() == 0 and pool.get_size() >= self._size:
                raise IndexFailed(
                    f"the index in {self.shown}: all {self._size} connections are busy",
                    hint="raise `pool`, or check the load of the server",
                ) from None
            raise
        try:
            async with transaction(connection):
                return await work(connection)
        except asyncpg.PostgresError as error:
            if is_table_missing(error):
                raise RebuildNeeded(str(error), pool) from error
            raise
        finally:
            with contextlib.suppress(*_DRIVER_ERRORS, OSError, asyncio.TimeoutError):
                await pool.release(connection, timeout=self.seconds)

    async def _ready_pool(self) -> Any:
        """Return the pool, after the tables have been created or checked."""
        if self._pool is not None:
            return self._pool
        async with self._opening:
            if self._pool is None:
                await self._prepare()
                self.check()
                self._pool = await asyncpg.create_pool(
                    self._dsn,
                    min_size=0,
                    max_size=self._size,
                    timeout=self.seconds,
                    command_timeout=self.seconds + _SLACK,
                    server_settings=self._settings(),
                    reset=_skip_reset,
                )
            return self._pool

    async def _prepare(self) -> None:
        try:
            connection = await asyncpg.connect(self._dsn, timeout=self.seconds, command_timeout=self.seconds + _SLACK)
        except (ValueError, asyncpg.InterfaceError):
            # Its text may quote any part of the URL.
            raise IndexFailed(
                f"the index in {self.shown}: this URL cannot be read",
                hint="write postgresql://USER:PASSWORD@HOST:PORT/NAME",
            ) from None
        try:
            self.tables = await ensure_tables(connection, self.schema, self._name, self.shown)
        finally:
            connection.terminate()
        if self.tables.dropped or (self.tables.dropped is None and self._known):
            why = self.tables.dropped or "its tables were gone"
            _log.warning("index_rebuilt", index=self.shown, schema=self.schema, reason=why)
        self._known = True

    def _discard_pool(self, pool: Any) -> None:
        """Have the tables checked again, unless that was done since this pool was used."""
        if self._pool is pool:
            self._pool = None
        pool.terminate()

    async def _expire_connections(self) -> None:
        """Discard all connections after one was lost."""
        if self._pool is not None:
            await self._pool.expire_connections()

    def _settings(self) -> dict[str, str]:
        return {
            "application_name": "symbiont",
            "search_path": f"{quoted(self.schema)}, {quoted(self.tables.vector_schema)}",
            "statement_timeout": str(int(self.seconds * 1000)),
            "idle_in_transaction_session_timeout": str(_IDLE_SECONDS * 1000),
            # Compiling a query takes longer than executing these.
            "jit": "off",
        }


def _read_transaction(connection: Any) -> Any:
    return connection.transaction(isolation="repeatable_read", readonly=True)


def _write_transaction(connection: Any) -> Any:
    return connection.transaction()


async def _skip_reset(_connection: Any) -> None:
    """Skip the reset of a connection: settings and locks end with their transaction."""


async def _close_pool(pool: Any, seconds: float) -> None:
    try:
        await asyncio.wait_for(pool.close(), seconds)
    except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        pool.terminate()
