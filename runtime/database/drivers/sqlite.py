"""SQLite: one file in WAL mode, every commit synced, and a thread for the writer."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import URL, Connection, Engine, StaticPool, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from runtime.errors import UsageError

if TYPE_CHECKING:
    from runtime.database.bulk import Statement
    from runtime.database.group_commit import GroupCommit

Result = TypeVar("Result")

BUSY_SECONDS = 2
"""Seconds that a statement waits for another process's lock. Slack waits 3 s for the response to a delivery
(docs.slack.dev/apis/events-api), others not much longer."""

CHECKPOINT_SECONDS = 1.0
"""Seconds between checkpoints, which copy the log into the database beside the writer. The syncs of a checkpoint delay
the writer's, and a page that changes often is copied once for all its changes in between."""

LONGEST_WAL = 16_384
"""Pages (64 MiB) of the log after which the writer waits for the rest of a checkpoint and restarts the log."""

EMPTY_SECONDS = 15.0
EMPTY_AGAIN_SECONDS = 0.25
"""Seconds from a deletion of clear text until the log, which still contains it, is emptied; and until the next try if
the database is busy, because nothing waits for this."""

TURN_SECONDS = 0.1
"""Maximum seconds of consecutive transactions before other writers get their turn."""

STATEMENTS = 512
"""Prepared statements per connection; bulk statements have a form for each number of rows, see `bulk.EXACT`."""


LOG = "-wal"
"""End of the name of a file's log."""


def log_of(path: Path) -> Path:
    """Return the log (WAL) of a database file, which SQLite removes when the last process closes the database."""
    return path.with_name(f"{path.name}{LOG}")


def identities(path: Path) -> dict[Path, tuple[int, int]]:
    """Return device and inode of an open database file, its log and its shared memory, for `unchanged`."""
    paths = (path, log_of(path), path.with_name(f"{path.name}-shm"))
    return {each: found for each in paths if (found := _identity(each)) is not None}


def are_unchanged(files: Mapping[Path, tuple[int, int]]) -> bool:
    """True if the open files are still those at their paths: what is written to a removed one is lost."""
    return all(_identity(path) == known for path, known in files.items())


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file; None if it is missing, or a database of 0 bytes."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status.st_size or path.name.endswith(LOG) else None


def is_empty(path: Path) -> bool:
    """True if the file is missing or has 0 bytes. Raises OSError if that cannot be known."""
    try:
        return path.stat().st_size == 0
    except FileNotFoundError:
        return True


def refuse_orphaned_log(path: Path) -> None:
    """Raise UsageError if a missing or empty file has left its log, which SQLite would delete with its content."""
    log = log_of(path)
    if not is_empty(log):
        raise UsageError(
            f"{log} has the last changes of a database that is missing or empty: {path}",
            hint="put the database back beside it; if there is none, move that file away",
        )


def make_file(path: Path) -> None:
    """Create the file, readable by its owner only, unless it exists. Raises UsageError on failure."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except FileNotFoundError:
        raise UsageError(f"{path}: its folder does not exist", hint="create it, or name another file") from None
    except OSError as error:
        reason = (error.strerror or "cannot be opened").lower()
        raise UsageError(f"{path}: {reason}", hint="check the permissions of the file and its folder") from None


def refuse_other(path: Path) -> None:
    """Raise UsageError if the file contains tables of another program; the file is not changed."""
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "alembic_version" not in tables:
        raise UsageError(f"{path}: this database belongs to another program", hint="name another file")


class WriterThread:
    """Runs a function in one transaction over a synchronous connection, in the writer's thread.

    A transaction costs the event loop one thread switch, and no commit waits for the loop.
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
        prepare(self._engine, begin="BEGIN IMMEDIATE", query_only=False)
        self._checkpoints = Checkpoints(path)

    async def run(self, function: Callable[[Connection], Result]) -> Result:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._transaction, function)
        finally:
            # A large deletion makes the log as long as many deliveries.
            self._checkpoints.start_if_due(loop)

    async def series(self, commits: GroupCommit) -> None:
        """Run transactions one after the other, for at most TURN_SECONDS.

        Plain statements are executed and committed in the thread, beside the event loop. Others are executed in the
        loop and only committed in the thread: to win the interpreter lock from a busy loop for each step of a function
        would take longer than the function.
        """
        with self._engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            # Another process's lock must not block the loop: a failed transaction is retried by `run`, which waits
            # for the lock in the thread.
            driver.execute("PRAGMA busy_timeout=0")
            try:
                await self._turn(connection, driver, commits)
            finally:
                driver.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")

    async def _turn(self, connection: Connection, driver: Any, commits: GroupCommit) -> None:
        loop = asyncio.get_running_loop()
        end = time.monotonic() + TURN_SECONDS
        while time.monotonic() < end and (transaction := commits.next_transaction()) is not None:
            plain, error = transaction.plain(), None
            answers: Sequence[Any] | None = None
            try:
                if plain is None:
                    with connection.begin() as open_transaction:
                        answers = transaction.apply(connection)
                        await loop.run_in_executor(self._thread, open_transaction.commit)
                elif await loop.run_in_executor(self._thread, self._execute, driver, plain.statements):
                    answers = plain.answers
            except Exception as caught:
                answers, error = None, caught
            if answers is None:
                commits.schedule_retry(transaction, error)
            else:
                commits.finish(transaction, answers)
                self._checkpoints.start_if_due(loop)

    def _execute(self, connection: Any, statements: Sequence[Statement]) -> bool:
        """Commit `statements` as one transaction. False, with a rollback, if one inserts fewer rows than it should."""
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
        """Schedule the emptying of the log. Called in the event loop."""
        self._checkpoints.empty_later(asyncio.get_running_loop(), EMPTY_SECONDS)

    async def close(self) -> None:
        """Close the connection in the thread that created it, and end the thread."""
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
    """Copies the log into the database in a separate thread, so that the writer seldom waits for it.

    A checkpoint at commit, SQLite's default, would delay everything that waits for that commit by tens of milliseconds,
    several times a second under load (https://sqlite.org/wal.html, "Avoiding Excessively Large WAL Files"). `overdue`:
    the log is long, and only the writer can restart it.
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

    def start_if_due(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a checkpoint if one is due. Called in the event loop, after a commit."""
        if self._running is None and time.monotonic() - self._last > CHECKPOINT_SECONDS:
            self._running = loop.run_in_executor(self._thread, self._copy)
            self._running.add_done_callback(self._finish_copy)

    def _finish_copy(self, running: asyncio.Future[None]) -> None:
        self._running = None
        self._last = time.monotonic()
        if not running.cancelled():
            # The writer reports a full or failing disk at its next commit.
            running.exception()

    def _copy(self) -> None:
        _, pages, _ = self._open_connection().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self.overdue = pages > LONGEST_WAL

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS)
            self._connection.execute("PRAGMA synchronous=FULL")
        return self._connection

    def empty_later(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Empty the log in `seconds`, unless that is scheduled already. Called in the event loop."""
        if self._emptying is None and not self._closed:
            self._emptying = loop.call_later(seconds, self._begin_to_empty, loop)

    def _begin_to_empty(self, loop: asyncio.AbstractEventLoop) -> None:
        # A request from now on schedules another pass: its data may be written after this one.
        self._emptying = None

        def reschedule(emptying: asyncio.Future[bool]) -> None:
            if emptying.cancelled():
                return
            if emptying.exception() is not None:
                self.empty_later(loop, EMPTY_SECONDS)  # the writer reports errors of the disk
            elif not emptying.result():
                self.empty_later(loop, EMPTY_AGAIN_SECONDS)

        loop.run_in_executor(self._thread, self._empty).add_done_callback(reschedule)

    def _empty(self) -> bool:
        """Empty the log; True if that succeeded. Takes the writer's lock, and does not wait for readers."""
        connection = self._open_connection()
        connection.execute("PRAGMA busy_timeout=0")
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
        finally:
            connection.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")

    def restart(self, connection: sqlite3.Connection) -> None:
        """Copy the rest of the log and restart it, unless a reader still needs it.

        Called in the writer's thread, while `connection` waits for no lock.
        """
        self.overdue = False
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()

    async def close(self) -> None:
        """Finish, and close the connection in its thread."""
        self._closed = True
        if self._emptying is not None:
            self._emptying.cancel()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close_connection)
        self._thread.shutdown()

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()


def async_engine(path: Path, *, readers: int) -> AsyncEngine:
    """Return the engine of the readers, or with `readers=0` of the writer, which has one connection."""
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path.absolute())),  # written as text, `%62` would be `b`
        connect_args={"timeout": BUSY_SECONDS},
        pool_size=readers or 1,
        max_overflow=0,
        hide_parameters=True,
    )
    begin = "BEGIN" if readers else "BEGIN IMMEDIATE"
    prepare(engine.sync_engine, begin=begin, query_only=bool(readers))
    return engine


def prepare(engine: Engine, *, begin: str, query_only: bool) -> None:
    """Set up every connection, and begin transactions here, not in the driver.

    The driver's BEGIN is deferred: a transaction that reads and then writes fails at once on WAL if another connection
    has written in between (https://sqlite.org/isolation.html).
    """

    def set_pragmas(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        # Before the first page is written, see `vacuum`; later it would only write a page.
        cursor.execute("PRAGMA page_count")
        if not cursor.fetchone()[0]:
            cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA secure_delete=ON")  # tags and sources are clear text; Debian's default
        cursor.execute("PRAGMA cache_size=-32768")  # KiB: unique keys are scattered over their indexes
        cursor.execute(f"PRAGMA wal_autocheckpoint={4 * LONGEST_WAL}")
        # A reader may have let the log grow; the next one that begins anew is cut to this size.
        cursor.execute(f"PRAGMA journal_size_limit={LONGEST_WAL * 4096}")
        if query_only:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", set_pragmas)
    event.listen(engine, "begin", begin_transaction)


PAGES = 256
"""Maximum pages (1 MiB) that one transaction returns; pages at the end of the file are moved into free ones."""

SPARE = 4096
"""Free pages (16 MiB) that are kept, or a quarter of the file if that is more, for the next writes."""


def vacuum(connection: Connection) -> bool:
    """Return some free pages of a SQLite file, in the writer's transaction. True if there are more.

    PostgreSQL vacuums by itself. A file created without `auto_vacuum` does not shrink
    (https://sqlite.org/pragma.html#pragma_auto_vacuum). The file becomes shorter at the next checkpoint.
    """
    if connection.dialect.name != "sqlite":
        return False
    driver: Any = connection.connection.driver_connection
    free, total = _number(driver, "freelist_count"), _number(driver, "page_count")
    surplus = free - max(SPARE, total // 4)
    if surplus <= 0 or _number(driver, "auto_vacuum") == 0:
        return False
    for _ in range(min(surplus, PAGES)):
        # One page at a time: each page is a row without columns, and the driver stops after the first.
        driver.execute("PRAGMA incremental_vacuum(1)")
    return surplus > PAGES


def _number(driver: Any, pragma: str) -> int:
    return int(driver.execute(f"PRAGMA {pragma}").fetchone()[0])
