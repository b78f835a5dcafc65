"""Open, read, write and close: what everything that keeps rows is handed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import Connection, delete
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from runtime.crypto import MasterKey
from runtime.database.database_id import database_id
from runtime.database.drivers.postgresql import ANSWER_SECONDS, PostgresConnections
from runtime.database.drivers.sqlite import TURN_SECONDS, WriterThread, async_engine, make_file, refuse_other
from runtime.database.errors import Collision, Unavailable, opening, unavailable
from runtime.database.group_commit import GroupCommit
from runtime.database.key_check import check_key
from runtime.database.location import Kind, Location, locate
from runtime.database.migrate import HEAD, migrate
from runtime.database.outage import Outage
from runtime.database.schema import meta
from runtime.errors import SymbiontError

Result = TypeVar("Result")

READERS = 4
"""Connections that read at the same time."""

CLOSE_SECONDS = 2
"""How long PostgreSQL may take to say goodbye before its connections are dropped."""

PROBE_BYTES = 256 * 1024
"""What a probe writes: the most that a delivery may hold unless its webhook says otherwise, so that a disk on which no
delivery fits is not taken for one that has room."""

CLAIM = 0x73796D6269  # "symbi": the advisory lock of the daemon that has the database to itself


_PROBE = "probe "
"""How the names of the rows of `meta` begin that probes write and remove."""


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
        server: PostgresConnections | None = None,
    ) -> None:
        self.kind: Kind = location.kind
        self.shown = location.shown
        self.master_key = master_key
        self.id = ""
        """The same at every opening: what lies elsewhere and belongs to this database is named for it."""
        self.upgraded: str | None = None
        """What the opening did to the schema of an older program, in one line."""
        self.outage = Outage(self._probe)
        self.commits = GroupCommit(self.transact, self.series, self._known, self.outage)
        self.on_fatal: Callable[[Unavailable], None] | None = None
        self._location = location
        self._writer = writer
        self._reader = reader
        self._thread = thread
        self._server = server
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
            database.id, before = await database.transact(
                lambda connection: _ready(connection, master_key, location.shown)
            )
            if before is not None:
                database.upgraded = (
                    f"{location.shown}: its schema {before} was brought to {HEAD}, which an older symbi cannot open"
                )
        except BaseException as error:
            await database.close()
            cause = error.__cause__ if isinstance(error, SymbiontError) and error.__cause__ else error
            if isinstance(cause, Exception) and (known := opening(cause, location)) is not None:
                raise known from None
            raise
        if database._server is not None:
            database._server.limit()
        database.empty_log()  # that of a process that was killed
        return database

    async def close(self) -> None:
        """Wait for what is being stored, then close every connection; not for a server that does not answer."""
        await self.commits.close()
        await self.outage.close()
        timer = None
        if self._server is not None:
            timer = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._server.terminate)
        async with self._lock:
            if self._thread is not None:
                await self._thread.close()
            if self._claim is not None:
                self._claim.terminate()
            await self._reader.dispose()
            if self._writer is not self._reader:
                await self._writer.dispose()
        if timer is not None:
            timer.cancel()

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
                if await connection.fetchval("SELECT pg_try_advisory_lock($1)", CLAIM, timeout=ANSWER_SECONDS):
                    self._claim, connection = connection, None
                    return True
            finally:
                if connection is not None:
                    # Not `close`, which waits for an answer.
                    connection.terminate()
        return False

    async def session(self) -> Any:
        """A new asyncpg connection to PostgreSQL, for what lives as long as a connection; the caller closes it.

        Raises `Unavailable`.
        """
        assert self._server is not None
        with self._translated():
            return await self._server.connect()

    async def keep_claim(self) -> bool:
        """Claim again what was claimed and went with a lost connection; False when another process was quicker.

        Raises `Unavailable` when PostgreSQL does not answer.
        """
        return self._claim is None or await self.claim_alone()

    async def probe(self) -> None:
        """Write and commit as much as a delivery needs, to see whether that can be done. Raises `Unavailable`."""
        self.outage.check()
        await self._probe()

    async def _probe(self) -> None:
        row = meta.insert().values(name=f"{_PROBE}{uuid4().hex}", value="x" * PROBE_BYTES)
        # Two transactions: what is inserted and deleted in one is never written. A killed process leaves its row to the
        # next probe.
        await self._shielded(lambda connection: connection.execute(row))
        await self._shielded(lambda connection: connection.execute(delete(meta).where(meta.c.name.startswith(_PROBE))))

    def intact(self) -> bool:
        """Whether the file that is open is still the one at its path; what is written to a removed file is lost."""
        return self._file is None or self._file == _identity(self._location.path)

    def empty_log(self) -> None:
        """Something that stands in the clear was deleted or changed: have SQLite's log, where it stands as it was,
        emptied within a minute. PostgreSQL sees to its own. Called in the event loop."""
        if self._thread is not None:
            self._thread.empty_log()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """The one writer: committed at the end of the block, rolled back when it raises.

        Nothing inside the block may wait for another write. Raises `Unavailable` when the database fails.
        """
        self.outage.check()
        async with self._lock:
            self.outage.check()
            with self._writing():
                async with self._writer.begin() as connection:
                    yield connection

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection that only reads, with one consistent view. Raises `Unavailable` when the database fails."""
        if self.kind == "postgresql":
            # A file that takes no writes can still be read.
            self.outage.check()
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
        # Here too: who has the lock during an outage, a probe for instance, may have it for long.
        self.outage.check()
        return await self._shielded(function, check=self.outage.check)

    async def _shielded(
        self, function: Callable[[Connection], Result], *, check: Callable[[], None] = lambda: None
    ) -> Result:
        task = asyncio.create_task(self._transact(function, check), name="database transaction")
        # When the caller was cancelled nobody else asks how it ended.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(task)

    async def _transact(self, function: Callable[[Connection], Result], check: Callable[[], None]) -> Result:
        async with self._lock:
            check()
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
        return _Translated(self._location, self._failed_to_read)

    def _writing(self) -> _Translated:
        return _Translated(self._location, self._failed)

    def _known(self, error: Exception) -> Unavailable | None:
        """What a driver's error means, when it is about the database itself; a disk that fails is told at once."""
        known = unavailable(error, self._location)
        if known is not None:
            self._failed(known)
        return known

    def _failed(self, error: Unavailable) -> None:
        if not error.fatal and not isinstance(error, Collision):
            self.outage.suspect()
        elif error.fatal and self.on_fatal is not None:
            on_fatal, self.on_fatal = self.on_fatal, None
            on_fatal(error)

    def _failed_to_read(self, error: Unavailable) -> None:
        if self.kind == "postgresql" and not isinstance(error, Collision):
            self.outage.suspect()


def _identity(path: Path | None) -> tuple[int, int] | None:
    try:
        status = path.stat() if path else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status else None


class _Translated:
    """Raises what drivers raise about the database itself as `Unavailable`, and tells `told` of it."""

    __slots__ = ("_location", "_told")

    def __init__(self, location: Location, told: Callable[[Unavailable], None]) -> None:
        self._location = location
        self._told = told

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, Exception) or (known := unavailable(error, self._location)) is None:
            return
        self._told(known)
        if known is not error:
            raise known from error


def _ready(connection: Connection, key: MasterKey, shown: str) -> tuple[str, str | None]:
    """In one transaction, so that daemons that start together do it one after the other. The database's id, and the
    revision that its schema had before when that was an older one."""
    before = migrate(connection, shown)
    check_key(connection, key, shown)
    return database_id(connection), before


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
    server = PostgresConnections(location, connections=READERS + 2)
    return Database(location, key, writer=server.engine, reader=server.engine, thread=None, server=server)
