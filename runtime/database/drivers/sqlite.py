"""SQLite: one file, WAL, every commit synced; the writer has a thread of its own."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine, StaticPool, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from runtime.errors import UsageError

if TYPE_CHECKING:
    from runtime.database.bulk import Statement
    from runtime.database.group_commit import GroupCommit

Result = TypeVar("Result")

BUSY_SECONDS = 2
"""How long a statement waits for another process's lock. Slack gives a delivery 3 s until it is answered
(docs.slack.dev/apis/events-api), and others not much more."""

CHECKPOINT_SECONDS = 1.0
"""How often the log is copied into the database beside the writer, while there is something to copy. Each copy's syncs
hold up the writer's; and a page that changes often is copied once for all its changes in between."""

LONGEST_WAL = 16_384
"""Pages (64 MiB) of the log after which the writer itself waits for the rest of a copy, and begins the log anew."""

EMPTY_SECONDS = 15.0
EMPTY_AGAIN_SECONDS = 0.25
"""How long after something was forgotten the log is emptied, in which it still stands; and until the next try where
somebody writes or reads just then, as nobody is to wait for this."""

TURN_SECONDS = 0.1
"""How long transactions may follow on one another before other writers have their turn."""

STATEMENTS = 512
"""Prepared statements a connection keeps; bulk statements have a form for each number of rows, see `bulk.EXACT`."""


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
            hide_parameters=True,
        )
        _prepare(self._engine, begin="BEGIN IMMEDIATE", query_only=False)
        self._checkpoints = Checkpoints(path)

    async def run(self, function: Callable[[Connection], Result]) -> Result:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._transaction, function)
        finally:
            # A large deletion makes the log as long as many deliveries do.
            self._checkpoints.look(loop)

    async def series(self, commits: GroupCommit) -> None:
        """Transactions one after the other, for at most TURN_SECONDS.

        Plain statements run and commit in the thread, beside the event loop. Anything else is made in the loop and
        only committed in the thread: to win the interpreter's lock from a busy loop for each step of a function would
        take longer than the function.
        """
        with self._engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            # While another process holds the lock the loop must not stand still: what fails is done again by `run`,
            # which waits for the lock in the thread.
            driver.execute("PRAGMA busy_timeout=0")
            try:
                await self._turn(connection, driver, commits)
            finally:
                driver.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")

    async def _turn(self, connection: Connection, driver: Any, commits: GroupCommit) -> None:
        loop = asyncio.get_running_loop()
        end = time.monotonic() + TURN_SECONDS
        while time.monotonic() < end and (transaction := commits.next_one()) is not None:
            plain, error = transaction.plain(), None
            answers: Sequence[Any] | None = None
            try:
                if plain is None:
                    with connection.begin() as begun:
                        answers = transaction.apply(connection)
                        await loop.run_in_executor(self._thread, begun.commit)
                elif await loop.run_in_executor(self._thread, self._execute, driver, plain.statements):
                    answers = plain.answers
            except Exception as caught:
                answers, error = None, caught
            if answers is None:
                commits.failed(transaction, error)
            else:
                commits.stored(transaction, answers)
                self._checkpoints.look(loop)

    def _execute(self, connection: Any, statements: Sequence[Statement]) -> bool:
        """Commit `statements` as one transaction; False, and nothing done, when one makes fewer rows than it should."""
        if self._checkpoints.overdue:
            self._checkpoints.restart(connection)
        connection.execute("BEGIN IMMEDIATE")
        try:
            for sql, parameters, rows in statements:
                if connection.execute(sql, parameters).rowcount != rows:
                    connection.execute("ROLLBACK")
                    return False
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return True

    def empty_log(self) -> None:
        """Have the log emptied soon. Called in the event loop."""
        self._checkpoints.empty_later(asyncio.get_running_loop(), EMPTY_SECONDS)

    async def close(self) -> None:
        """Close the connection, in the thread that made it, and end the thread."""
        await self._checkpoints.close()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.dispose)
        self._thread.shutdown()

    def _transaction(self, function: Callable[[Connection], Result]) -> Result:
        with self._engine.connect() as connection:
            if self._checkpoints.overdue:
                self._restart(connection.connection.driver_connection)
            with connection.begin():
                return function(connection)

    def _restart(self, driver: Any) -> None:
        driver.execute("PRAGMA busy_timeout=0")
        try:
            self._checkpoints.restart(driver)
        finally:
            driver.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")


class Checkpoints:
    """Copies the log into the database in a thread of its own: beside the writer, which then seldom has to wait for it.

    A checkpoint at commit, SQLite's own way, would hold up everything that waits for that commit for tens of
    milliseconds, several times a second under load (https://sqlite.org/wal.html, "Avoiding Excessively Large WAL
    Files"). `overdue`: the log has grown long, and only the writer can begin it anew.
    """

    def __init__(self, path: Path) -> None:
        self.overdue = False
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="symbiont database checkpoints")
        self._connection: sqlite3.Connection | None = None
        self._running: asyncio.Future[None] | None = None
        self._last = 0.0
        self._emptying: asyncio.TimerHandle | None = None
        self._closed = False

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a checkpoint when it is time for one. Called in the event loop, after a commit."""
        if self._running is None and time.monotonic() - self._last > CHECKPOINT_SECONDS:
            self._running = loop.run_in_executor(self._thread, self._copy)
            self._running.add_done_callback(self._copied)

    def _copied(self, running: asyncio.Future[None]) -> None:
        self._running = None
        self._last = time.monotonic()
        if not running.cancelled():
            # A full or failing disk is the writer's to report: it meets it at its next commit.
            running.exception()

    def _copy(self) -> None:
        _, pages, _ = self._opened().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self.overdue = pages > LONGEST_WAL

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS)
            self._connection.execute("PRAGMA synchronous=FULL")
        return self._connection

    def empty_later(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Empty the log in so many seconds, unless that is to be done already. Called in the event loop."""
        if self._emptying is None and not self._closed:
            self._emptying = loop.call_later(seconds, self._begin_to_empty, loop)

    def _begin_to_empty(self, loop: asyncio.AbstractEventLoop) -> None:
        # What is asked for from now on is done once more: it may be written behind this.
        self._emptying = None

        def done(emptying: asyncio.Future[bool]) -> None:
            if emptying.cancelled():
                return
            if emptying.exception() is not None:
                self.empty_later(loop, EMPTY_SECONDS)  # the writer says what is wrong with the disk
            elif not emptying.result():
                self.empty_later(loop, EMPTY_AGAIN_SECONDS)

        loop.run_in_executor(self._thread, self._empty).add_done_callback(done)

    def _empty(self) -> bool:
        """Whether the log was emptied. It takes the writer's lock, and does not wait with that for a reader."""
        connection = self._opened()
        connection.execute("PRAGMA busy_timeout=0")
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
        finally:
            connection.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")

    def restart(self, connection: sqlite3.Connection) -> None:
        """Copy what is left and begin the log anew; not when a reader still needs it.

        Called in the writer's thread, while `connection` waits for no lock.
        """
        self.overdue = False
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()

    async def close(self) -> None:
        """Finish, and close the connection in its thread."""
        self._closed = True
        if self._emptying is not None:
            self._emptying.cancel()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
        self._thread.shutdown()

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()


def async_engine(path: Path, *, readers: int) -> AsyncEngine:
    """The engine of the readers; with `readers=0` that of the writer, which has one connection."""
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{path}",
        connect_args={"timeout": BUSY_SECONDS},
        pool_size=readers or 1,
        max_overflow=0,
        hide_parameters=True,
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
        # Before the first page of a new file is written; see `runtime.database.drivers.vacuum`.
        cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA secure_delete=ON")  # tags and sources stand in the clear; Debian's default
        cursor.execute("PRAGMA cache_size=-32768")  # KiB: unique keys lie scattered over their indexes
        cursor.execute(f"PRAGMA wal_autocheckpoint={4 * LONGEST_WAL}")
        if query_only:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
