"""SQLite: one file, WAL, every commit synced; the writer has a thread of its own."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, StaticPool, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from runtime.errors import UsageError

Result = TypeVar("Result")

BUSY_SECONDS = 10
"""How long a statement waits for another process's lock."""

TURN_SECONDS = 0.1
"""How long transactions may follow on one another before other writers have their turn."""

STATEMENTS = 512
"""Prepared statements a connection keeps; bulk statements have one form for each power of two."""


def make_file(path: Path) -> None:
    """Create the file, readable by its owner only, unless it is there. Raises UsageError when that cannot be."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except FileNotFoundError:
        raise UsageError(f"{path}: its folder does not exist", hint="create it, or name another file") from None
    except OSError as error:
        reason = (error.strerror or "cannot be opened").lower()
        raise UsageError(f"{path}: {reason}", hint="check the rights on the file and its folder") from None


def refuse_other(path: Path) -> None:
    """Raise UsageError when another program's tables are in the file; nothing of it has been changed then."""
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "alembic_version" not in tables:
        raise UsageError(f"{path}: this database belongs to another program", hint="name another file")


class WriterThread:
    """Runs a function over a synchronous connection, in one transaction, in the writer's own thread.

    A whole transaction costs the event loop one hop, and no commit ever waits for the loop.
    """

    def __init__(self, path: Path) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="symbiont database writer")
        self._engine = create_engine(
            "sqlite://",
            creator=lambda: sqlite3.connect(
                path, timeout=BUSY_SECONDS, cached_statements=STATEMENTS, check_same_thread=False
            ),
            poolclass=StaticPool,
        )
        _prepare(self._engine, begin="BEGIN IMMEDIATE", query_only=False)

    async def run(self, function: Callable[[Connection], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transaction, function)

    async def series(
        self, next_one: Callable[[], Callable[[Connection], Result] | None], done: Callable[[Result], None]
    ) -> None:
        """Transactions one after the other, each made in the event loop and committed in the writer's thread.

        The statements of a group take less time than a thread needs to win the interpreter's lock for each of them
        from a busy loop; the sync to disk, which takes the most, is what the loop goes on beside.
        """
        loop = asyncio.get_running_loop()
        end = time.monotonic() + TURN_SECONDS
        with self._engine.connect() as connection:
            while time.monotonic() < end and (function := next_one()) is not None:
                with connection.begin() as transaction:
                    result = function(connection)
                    await loop.run_in_executor(self._thread, transaction.commit)
                done(result)

    async def close(self) -> None:
        """Close the connection, in the thread that made it, and end the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.dispose)
        self._thread.shutdown()

    def _transaction(self, function: Callable[[Connection], Result]) -> Result:
        with self._engine.begin() as connection:
            return function(connection)


def async_engine(path: Path, *, readers: int) -> AsyncEngine:
    """The engine of the readers; with `readers=0` that of the writer, which has one connection."""
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{path}",
        connect_args={"timeout": BUSY_SECONDS},
        pool_size=readers or 1,
        max_overflow=0,
    )
    begin = "BEGIN" if readers else "BEGIN IMMEDIATE"
    _prepare(engine.sync_engine, begin=begin, query_only=bool(readers))
    return engine


def _prepare(engine: Engine, *, begin: str, query_only: bool) -> None:
    """Set every connection up, and let us, not the driver, begin transactions.

    The driver's own BEGIN is deferred: a transaction that reads and then writes fails at once on WAL
    when another connection has written in between (https://sqlite.org/isolation.html).
    """

    def connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA cache_size=-32768")  # KiB: unique keys lie scattered over their indexes
        cursor.execute("PRAGMA wal_autocheckpoint=2000")  # pages: 8 MiB are a pause of about 20 ms
        if query_only:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
