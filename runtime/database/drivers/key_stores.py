"""The stores of keys: a SQLite file beside the database, or a schema of the PostgreSQL database.

Both block their caller, because values are sealed within transactions. On PostgreSQL a thread with a connection of its
own does the work, so it never waits for a connection that a transaction of this process holds.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NotInTime
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import Connection, StaticPool, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dslc.blocks.values.quantity import format_duration
from runtime.database.drivers import postgresql
from runtime.database.drivers.postgresql import PostgresConnections
from runtime.database.drivers.sqlite import BUSY_SECONDS, are_unchanged, identities, make_file, prepare
from runtime.database.errors import Unavailable, unavailable
from runtime.database.keys import tables
from runtime.database.location import DatabaseLocation
from runtime.private_file import require_private

Result = TypeVar("Result")

LOG_PAGES: Final = 256
"""Pages of the log after which it is copied into the file."""
_CLOSE_SECONDS: Final = 2


def keys_file(database: Path) -> Path:
    """Return the file of the keys for a SQLite database: `keys.db` beside the root's `symbiont.db`."""
    return database.with_name("keys.db" if database.name == "symbiont.db" else f"{database.stem}-keys.db")


class SqliteKeys:
    """Keys in a file that only its owner can read; others are refused. Every commit is synced: see `prepare`."""

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self._location = DatabaseLocation("sqlite", str(path), path=path)
        self._lock = threading.Lock()
        make_file(path)
        for file in (path, path.with_name(f"{path.name}-wal")):
            with suppress(FileNotFoundError):
                require_private(file)
        engine = create_engine(
            "sqlite://",
            creator=lambda: sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False),
            poolclass=StaticPool,
            hide_parameters=True,
        )
        prepare(engine, begin="BEGIN IMMEDIATE", query_only=False)
        self._engine = engine.execution_options(schema_translate_map={tables.SCHEMA: None})
        self._pragma(f"wal_autocheckpoint={LOG_PAGES}")
        self.scrub()  # what a process deleted that was killed before it could
        self._files = identities(path)

    def intact(self) -> bool:
        """See `KeyStore.intact`."""
        return are_unchanged(self._files)

    def transact(self, function: Callable[[Connection], Result], *, seconds: float | None = None) -> Result:
        """See `KeyStore.transact`."""
        with self._translate_errors(), self._lock, self._engine.begin() as connection:
            return function(connection)

    def scrub(self) -> None:
        """Empty the log: the pages in the file are overwritten (`secure_delete`), older ones in the log are not."""
        self._pragma("wal_checkpoint(TRUNCATE)")

    def _pragma(self, pragma: str) -> None:
        with self._translate_errors(), self._lock, self._engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.execute(f"PRAGMA {pragma}").fetchall()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            known = unavailable(error, self._location)
            if known is None:
                raise
            raise known from error

    def close(self) -> None:
        """See `KeyStore.close`."""
        with self._lock:
            self._engine.dispose()


class PostgresKeys:
    """Keys in a schema of a PostgreSQL database."""

    def __init__(self, location: DatabaseLocation) -> None:
        self.label = f"{location.label}, schema {tables.SCHEMA}"
        self._location = location
        self._lock = threading.Lock()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="symbiont keys", daemon=True)
        self._thread.start()
        self._server = PostgresConnections(location, connections=1)

    def transact(self, function: Callable[[Connection], Result], *, seconds: float | None = None) -> Result:
        """See `KeyStore.transact`."""
        return self._run(function, seconds)

    def intact(self) -> bool:
        """True: a server has no files that this process opens."""
        return True

    def scrub(self) -> None:
        """Have the server reuse the space of deleted rows. Its log and backups of its files keep them for longer."""
        with suppress(DBAPIError, Unavailable):
            self._run(lambda connection: connection.execute(text(f"VACUUM {tables.SCHEMA}.keys")), alone=True)

    def close(self) -> None:
        """See `KeyStore.close`. What other threads still ask fails: they would wait for a loop that has ended, and the
        end of the process for them."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(
        self, function: Callable[[Connection], Result], seconds: float | None = None, *, alone: bool = False
    ) -> Result:
        seconds = seconds or postgresql.ANSWER_SECONDS
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self.label}: closed")
            future = asyncio.run_coroutine_threadsafe(self._transact(function, alone=alone), self._loop)
        try:
            return future.result(seconds)
        except (NotInTime, CancelledError) as error:
            future.cancel()
            raise Unavailable(f"{self.label}: no answer for {format_duration(seconds)}") from error
        except (DBAPIError, PoolTimeout, OSError) as error:
            known = unavailable(error, self._location)
            if known is None:
                raise
            raise known from error

    async def _transact(self, function: Callable[[Connection], Result], *, alone: bool) -> Result:
        engine = self._server.engine
        if alone:
            engine = engine.execution_options(isolation_level="AUTOCOMMIT")
            async with engine.connect() as connection:
                return await connection.run_sync(function)
        async with engine.begin() as connection:
            return await connection.run_sync(function)

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*tasks, self._server.engine.dispose(), return_exceptions=True)
        self._server.terminate()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
