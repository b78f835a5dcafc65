"""Open, read, write and close: what everything that keeps rows is handed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from runtime.crypto import MasterKey
from runtime.database.failure import Unavailable, opening, unavailable
from runtime.database.group_commit import GroupCommit
from runtime.database.lasting_id import lasting_id
from runtime.database.migrate import migrate
from runtime.database.schema import meta
from runtime.database.seal_check import check_key
from runtime.database.sqlite import TURN_SECONDS, WriterThread, async_engine, make_file, refuse_other
from runtime.database.url import Kind, Location, locate
from runtime.errors import SymbiontError

Result = TypeVar("Result")

READERS = 4
"""Connections that read at the same time."""

CONNECT_SECONDS = 10

CLAIM = 0x73796D6269  # "symbi": the advisory lock of the daemon that has the database to itself


_PROBE = update(meta).values(value=meta.c.value)


class Database:
    """One database and its one writer.

    `kind` is `sqlite` or `postgresql`; `master_key` seals the Sealed columns; `commits` stores small pieces of work
    together. `on_fatal` is called once, with the error, when a write meets a disk that fails. Made by `Database.open`,
    ended by `close`.
    """

    def __init__(
        self,
        location: Location,
        master_key: MasterKey,
        *,
        writer: AsyncEngine,
        reader: AsyncEngine,
        thread: WriterThread | None,
    ) -> None:
        self.kind: Kind = location.kind
        self.shown = location.shown
        self.master_key = master_key
        self.id = ""
        """The same at every opening: what lies elsewhere and belongs to this database is named for it."""
        self.commits = GroupCommit(self.transact, self.series, self._known)
        self.on_fatal: Callable[[Unavailable], None] | None = None
        self._location = location
        self._writer = writer
        self._reader = reader
        self._thread = thread
        self._lock = asyncio.Lock()
        self._claim: Any = None
        self._file = _identity(location.path)

    @classmethod
    async def open(cls, url: str | Path, master_key: MasterKey) -> Database:
        """Open the database, bring its schema up to date, and check that it belongs to `master_key`.

        `url`: `sqlite:///PATH`, a path, or `postgresql://…`. Raises UsageError, in one line and without a password,
        when it cannot be opened, is newer than this program, or was sealed with another key.
        """
        location = locate(url)
        try:
            database = _sqlite(location, master_key) if location.kind == "sqlite" else _postgresql(location, master_key)
        except Exception as error:
            raise opening(error, location) or error from None
        try:
            database.id = await database.transact(lambda connection: _ready(connection, master_key, location.shown))
        except BaseException as error:
            await database.close()
            cause = error.__cause__ if isinstance(error, SymbiontError) and error.__cause__ else error
            if isinstance(cause, Exception) and (known := opening(cause, location)) is not None:
                raise known from None
            raise
        return database

    async def close(self) -> None:
        """Wait for what is being stored, then close every connection."""
        await self.commits.close()
        async with self._lock:
            if self._thread is not None:
                await self._thread.close()
            if self._claim is not None:
                await self._claim.close()
            await self._reader.dispose()
            if self._writer is not self._reader:
                await self._writer.dispose()

    async def claim_alone(self) -> bool:
        """Whether no other process has claimed this database for itself; held until `close` or the end of the process.

        A SQLite file is claimed with its root. Raises `Unavailable` when PostgreSQL does not answer.
        """
        if self.kind == "sqlite" or (self._claim is not None and not self._claim.is_closed()):
            return True
        # A session's lock ends with its connection, so this one is for nothing else.
        connection = await self.session()
        with self._translated():
            try:
                if await connection.fetchval("SELECT pg_try_advisory_lock($1)", CLAIM):
                    self._claim, connection = connection, None
                    return True
            finally:
                if connection is not None:
                    await connection.close()
        return False

    async def session(self) -> Any:
        """A new asyncpg connection to PostgreSQL, for what lives as long as a connection; the caller closes it.

        Raises `Unavailable`.
        """
        import asyncpg

        with self._translated():
            return await asyncpg.connect(self._location.dsn, timeout=CONNECT_SECONDS)

    async def keep_claim(self) -> bool:
        """Claim again what was claimed and went with a lost connection; False when another process was quicker.

        Raises `Unavailable` when PostgreSQL does not answer.
        """
        return self._claim is None or await self.claim_alone()

    async def probe(self) -> None:
        """Write something and commit it, to see whether that can be done. Raises `Unavailable`."""
        await self.transact(lambda connection: connection.execute(_PROBE))

    def intact(self) -> bool:
        """Whether the file that is open is still the one at its path; what is written to a removed file is lost."""
        return self._file is None or self._file == _identity(self._location.path)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """The one writer: committed at the end of the block, rolled back when it raises.

        Nothing inside the block may wait for another write. Raises `Unavailable` when the database fails.
        """
        async with self._lock:
            with self._writing():
                async with self._writer.begin() as connection:
                    yield connection

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection that only reads, with one consistent view. Raises `Unavailable` when the database fails."""
        with self._translated():
            async with self._reader.connect() as connection:
                if self.kind == "postgresql":
                    await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                async with connection.begin():
                    yield connection

    async def transact(self, function: Callable[[Connection], Result]) -> Result:
        """Run synchronous `function` in one write transaction and commit it.

        On SQLite it runs in the writer's thread, so it must not touch what belongs to the event loop. A cancelled
        caller does not stop it. Raises `Unavailable` when the database fails.
        """
        return await asyncio.shield(asyncio.create_task(self._transact(function), name="database transaction"))

    async def _transact(self, function: Callable[[Connection], Result]) -> Result:
        async with self._lock:
            with self._writing():
                if self._thread is not None:
                    return await self._thread.run(function)
                async with self._writer.begin() as connection:
                    return await connection.run_sync(function)

    async def series(self, commits: GroupCommit) -> None:
        """Store what waits in `commits`, one transaction after the other, for a turn of a tenth of a second.

        Each transaction is told to `commits`, stored or failed. Raises `Unavailable` when the database cannot be asked.
        """
        async with self._lock:
            if self._thread is not None:
                return await self._thread.series(commits)
            end = time.monotonic() + TURN_SECONDS
            while time.monotonic() < end and (transaction := commits.next_one()) is not None:
                try:
                    async with self._writer.begin() as connection:
                        answers = await connection.run_sync(transaction.apply)
                except Exception as error:
                    commits.failed(transaction, error)
                else:
                    commits.stored(transaction, answers)
        return None

    def _translated(self) -> _Translated:
        return _Translated(self._location)

    def _writing(self) -> _Translated:
        return _Translated(self._location, self._failed)

    def _known(self, error: Exception) -> Unavailable | None:
        """What a driver's error means, when it is about the database itself; a disk that fails is told at once."""
        known = unavailable(error, self._location)
        if known is not None:
            self._failed(known)
        return known

    def _failed(self, error: Unavailable) -> None:
        if error.fatal and self.on_fatal is not None:
            on_fatal, self.on_fatal = self.on_fatal, None
            on_fatal(error)


def _identity(path: Path | None) -> tuple[int, int] | None:
    try:
        status = path.stat() if path else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status else None


class _Translated:
    """Raises what drivers raise about the database itself as `Unavailable`, and tells `told` of it."""

    __slots__ = ("_location", "_told")

    def __init__(self, location: Location, told: Callable[[Unavailable], None] | None = None) -> None:
        self._location = location
        self._told = told

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, Exception) or (known := unavailable(error, self._location)) is None:
            return
        if self._told is not None:
            self._told(known)
        if known is not error:
            raise known from error


def _ready(connection: Connection, key: MasterKey, shown: str) -> str:
    """In one transaction, so that daemons that start together do it one after the other. The database's id."""
    migrate(connection, shown)
    check_key(connection, key, shown)
    return lasting_id(connection)


def _sqlite(location: Location, key: MasterKey) -> Database:
    assert location.path is not None
    make_file(location.path)
    refuse_other(location.path)
    return Database(
        location,
        key,
        writer=async_engine(location.path, readers=0),
        reader=async_engine(location.path, readers=READERS),
        thread=WriterThread(location.path),
    )


def _postgresql(location: Location, key: MasterKey) -> Database:
    import asyncpg

    # asyncpg reads libpq's URL form (sslmode, socket folders, passfile) itself.
    connect: Callable[[], Awaitable[Any]] = lambda: asyncpg.connect(location.dsn, timeout=CONNECT_SECONDS)  # noqa: E731
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        pool_size=READERS + 2,
        pool_timeout=CONNECT_SECONDS,
        # What is stored is nobody's business who reads an error.
        hide_parameters=True,
    )
    return Database(location, key, writer=engine, reader=engine, thread=None)
