"""The database handle: open, read, write and close."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import Connection, delete
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from runtime.crypto import MasterKey
from runtime.database.drivers.key_stores import PostgresKeys, SqliteKeys, keys_file
from runtime.database.drivers.postgresql import ANSWER_SECONDS, PostgresConnections
from runtime.database.drivers.sqlite import (
    TURN_SECONDS,
    WriterThread,
    are_unchanged,
    async_engine,
    identities,
    is_empty,
    make_file,
    refuse_orphaned_log,
    refuse_other,
)
from runtime.database.errors import Collision, Unavailable, opening_error, unavailable
from runtime.database.group_commit import GroupCommit
from runtime.database.keys.ring import KeyRing
from runtime.database.location import DatabaseLocation, Kind, locate
from runtime.database.meta import database_id, keys_id, open_keys
from runtime.database.migrate import ANY_DATABASE, DatabaseUnexpected, ExpectedDatabase, empty, migrate
from runtime.database.outage import Outage
from runtime.database.schema import meta
from runtime.database.transaction_end import Changes, ending
from runtime.errors import SymbiontError, UsageError

Result = TypeVar("Result")

READERS = 4
"""Number of concurrent reading connections."""

CLOSE_SECONDS = 2
"""Seconds for an orderly disconnect from PostgreSQL; then connections are dropped."""

PROBE_BYTES = 256 * 1024
"""Bytes that a probe writes: the default maximum size of a delivery, so that a disk too full for a delivery fails the
probe."""

CLAIM = 0x73796D6269  # "symbi": the advisory lock of a daemon that needs the database for itself

_PROBE = "probe "
"""Prefix of the names of `meta` rows that probes write and delete."""


class Database:
    """One database and its one writer.

    `kind` is `sqlite` or `postgresql`; `keys` seal the Sealed columns; `commits` stores small writes together;
    `changes` tells what was committed.
    `on_fatal` is called once, with the error, when a write fails because of the disk. Created by `Database.open`, ended
    by `close`.
    """

    def __init__(
        self,
        location: DatabaseLocation,
        *,
        writer: AsyncEngine,
        reader: AsyncEngine,
        thread: WriterThread | None,
        server: PostgresConnections | None = None,
    ) -> None:
        self.kind: Kind = location.kind
        self.label = location.label
        self.id = ""
        """The id of the database, which never changes; other files that belong to it are named after it."""
        self.is_new = False
        """True if it was created at opening."""
        self.upgraded: str | None = None
        """One line about the schema upgrade at opening; None if there was none."""
        self.outage = Outage(self._probe)
        self.changes = Changes()
        self.commits = GroupCommit(
            self.transact, self.series, self._to_unavailable, self.outage, publish=self.changes.publish_commit
        )
        self.on_fatal: Callable[[Unavailable], None] | None = None
        self._location = location
        self._keys: KeyRing | None = None
        self._writer = writer
        self._reader = reader
        self._thread = thread
        self._server = server
        self._lock = asyncio.Lock()
        self._claim: Any = None
        self._files: Mapping[Path, tuple[int, int]] = {}

    @classmethod
    async def open(cls, url: str | Path, master_key: MasterKey, expected: ExpectedDatabase = ANY_DATABASE) -> Database:
        """Open the database, upgrade its schema, and open the keys of its users, which `master_key` wraps.

        `url`: `sqlite:///PATH`, a path, or `postgresql://…`. Raises UsageError, in one line and without a password, if
        it cannot be opened, is newer than this program, or was sealed with other keys; DatabaseUnexpected if it is not
        as `expected`.
        """
        location = locate(url)
        try:
            database = _sqlite(location, expected) if location.kind == "sqlite" else _postgresql(location)
        except Exception as error:
            raise opening_error(error, location) or error from None
        try:
            prepare = partial(database._prepare, master_key=master_key, expected=expected)
            await database.transact(prepare)
        except BaseException as error:
            await database.close()
            cause = error.__cause__ if isinstance(error, SymbiontError) and error.__cause__ else error
            if isinstance(cause, Exception) and (known := opening_error(cause, location)) is not None:
                raise known from None
            raise
        if database._server is not None:
            database._server.limit()
        if location.path is not None:
            database._files = identities(location.path)
        database.empty_log()  # of a process that was killed
        return database

    @property
    def location(self) -> DatabaseLocation:
        """Return its location, with the password."""
        return self._location

    @property
    def keys(self) -> KeyRing:
        """Return the keys of its users."""
        assert self._keys is not None
        return self._keys

    async def learn_keys(self, user_id: str) -> None:
        """Have the keys of a user in memory, who may be new to this process. Raises `Unavailable`."""
        if not self.keys.knows(user_id):
            await asyncio.to_thread(self.keys.learn, user_id)

    async def close(self) -> None:
        """Wait for pending writes, then close every connection; does not wait for an unresponsive server."""
        await self.commits.close()
        await self.outage.close()
        if self._keys is not None:
            await asyncio.to_thread(self._keys.close)
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

    def _prepare(self, connection: Connection, master_key: MasterKey, expected: ExpectedDatabase) -> None:
        """Migrate the schema and open the keys.

        In one transaction, so that daemons that start together do this one after the other, and that nothing is changed
        in an unexpected database.
        """
        location = self._location
        self.upgraded = migrate(connection, location.label, expected)
        self.id = database_id(connection)
        if expected.id not in (None, self.id):
            raise DatabaseUnexpected("another", f"{location.label} is another database", hint="put the right one back")
        # Beside a file, so only after it turned out to be a database of ours.
        try:
            store = PostgresKeys(location) if location.path is None else SqliteKeys(keys_file(location.path))
            self._keys = KeyRing(store, master_key)
            self.is_new = keys_id(connection) is None
            open_keys(connection, self._keys, location.label, replaces=expected.replaces)
        except Unavailable as error:
            if location.path is None:
                raise
            # Of the file of the keys: nothing else translates errors here.
            hint = "check the file; if it is damaged, move it away, and restore an export with `symbi key import FILE`"
            raise UsageError(str(error), hint=hint) from None

    async def claim(self) -> bool:
        """Claim the database for this process alone, until `close` or the end of the process. False: another process
        has it.

        A SQLite file is claimed with its root. Raises `Unavailable` if PostgreSQL does not respond.
        """
        if self.kind == "sqlite" or (self._claim is not None and not self._claim.is_closed()):
            return True
        # The lock ends with its session, so this connection is used for nothing else.
        connection = await self.session()
        try:
            try:
                if await connection.fetchval("SELECT pg_try_advisory_lock($1)", CLAIM, timeout=ANSWER_SECONDS):
                    self._claim, connection = connection, None
                    return True
            finally:
                if connection is not None:
                    # Not `close`, which waits for a response.
                    connection.terminate()
        except Exception as error:
            self._translate(error, self._report_read_failure)
            raise
        return False

    async def session(self) -> Any:
        """Return a new asyncpg connection to PostgreSQL, for session-bound features; the caller closes it.

        Raises `Unavailable`.
        """
        assert self._server is not None
        try:
            return await self._server.connect()
        except Exception as error:
            self._translate(error, self._report_read_failure)
            raise

    async def keep_claim(self) -> bool:
        """Claim again if the claim was lost with its connection; False if another process has it now.

        Raises `Unavailable` if PostgreSQL does not respond.
        """
        return self._claim is None or await self.claim()

    async def probe(self) -> None:
        """Write and commit as much as a delivery needs, as a check. Raises `Unavailable`."""
        self.outage.check()
        await self._probe()

    async def _probe(self) -> None:
        row = meta.insert().values(name=f"{_PROBE}{uuid4().hex}", value="x" * PROBE_BYTES)
        # Two transactions: a row inserted and deleted in one is never written. The row of a killed process is deleted
        # by the next probe.
        await self._shield(lambda connection: connection.execute(row))
        await self._shield(lambda connection: connection.execute(delete(meta).where(meta.c.name.startswith(_PROBE))))

    def intact(self) -> bool:
        """True if the open files are still those at their paths; writes to a removed file are lost."""
        return are_unchanged(self._files)

    def empty_log(self) -> None:
        """Empty SQLite's log (WAL) within a minute, after clear text in it was deleted or changed.

        PostgreSQL manages its own log. Called in the event loop.
        """
        if self._thread is not None:
            self._thread.empty_log()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """Open the one write transaction: committed at the end of the block, rolled back if it raises.

        The block must not wait for another write. Raises `Unavailable` if the database fails.
        """
        self.outage.check()
        async with self._lock:
            self.outage.check()
            try:
                async with self._writer.begin() as connection:
                    yield connection
            except Exception as error:
                self._translate(error, self._report_failure)
                raise

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Open a read-only connection with one consistent view. Raises `Unavailable` if the database fails."""
        if self.kind == "postgresql":
            # A SQLite file can still be read during an outage.
            self.outage.check()
        try:
            async with self._reader.connect() as connection:
                if self.kind == "postgresql":
                    await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                async with connection.begin():
                    yield connection
        except Exception as error:
            self._translate(error, self._report_read_failure)
            raise

    async def transact(self, function: Callable[[Connection], Result]) -> Result:
        """Run the synchronous `function` in one write transaction and commit it.

        On SQLite it runs in the writer's thread, so it must not use objects of the event loop. A cancelled caller does
        not stop it. Raises `Unavailable` if the database fails.
        """
        # Before waiting for the lock too: during an outage its holder, such as a probe, may keep it for long.
        self.outage.check()
        return await self._shield(function, check=self.outage.check)

    async def _shield(
        self, function: Callable[[Connection], Result], *, check: Callable[[], None] = lambda: None
    ) -> Result:
        task = asyncio.create_task(self._transact(function, check), name="database transaction")
        # Retrieve the exception even if the caller was cancelled.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(task)

    async def _transact(self, function: Callable[[Connection], Result], check: Callable[[], None]) -> Result:
        def whole(connection: Connection) -> tuple[Result, Mapping[str, Sequence[object]]]:
            with ending(connection) as end:
                result = function(connection)
            return result, end.changed

        async with self._lock:
            check()
            try:
                if self._thread is not None:
                    result, changed = await self._thread.run(whole)
                else:
                    async with self._writer.begin() as connection:
                        result, changed = await connection.run_sync(whole)
            except Exception as error:
                self._translate(error, self._report_failure)
                raise
        self.changes.publish_commit(changed)
        return result

    async def series(self, commits: GroupCommit) -> None:
        """Store the writes that wait in `commits`, one transaction after the other, for at most a tenth of a second.

        Each transaction is reported to `commits` as stored or failed. Raises `Unavailable` if the database cannot be
        reached.
        """
        async with self._lock:
            if self._thread is not None:
                return await self._thread.series(commits)
            end = time.monotonic() + TURN_SECONDS
            while time.monotonic() < end and (transaction := commits.next_transaction()) is not None:
                try:
                    async with self._writer.begin() as connection:
                        answers = await connection.run_sync(transaction.apply)
                except Exception as error:
                    commits.schedule_retry(transaction, error)
                else:
                    commits.finish(transaction, answers)
        return None

    def _translate(self, error: Exception, report: Callable[[Unavailable], None]) -> None:
        """Raise the error of a driver about the database itself as `Unavailable`, and call `report` with it."""
        known = unavailable(error, self._location)
        if isinstance(error, DBAPIError) and not self.intact():
            # A new connection finds another file, or none; SQLite reports that in several ways.
            known = Unavailable(f"{self.label} was removed or replaced")
        if known is not None:
            report(known)
            if known is not error:
                raise known from error

    def _to_unavailable(self, error: Exception) -> Unavailable | None:
        """Translate a driver error to `Unavailable`, or None if it is not an outage. Disk errors are reported
        immediately."""
        known = unavailable(error, self._location)
        if known is not None:
            self._report_failure(known)
        return known

    def _report_failure(self, error: Unavailable) -> None:
        if not error.fatal and not isinstance(error, Collision):
            self.outage.suspect()
        elif error.fatal and self.on_fatal is not None:
            on_fatal, self.on_fatal = self.on_fatal, None
            on_fatal(error)

    def _report_read_failure(self, error: Unavailable) -> None:
        if self.kind == "postgresql" and not isinstance(error, Collision):
            self.outage.suspect()


def _sqlite(location: DatabaseLocation, expected: ExpectedDatabase) -> Database:
    assert location.path is not None
    if is_empty(location.path):
        if not expected.creates:
            raise empty(location.label)
        refuse_orphaned_log(location.path)
    make_file(location.path)
    refuse_other(location.path)
    return Database(
        location,
        writer=async_engine(location.path, readers=0),
        reader=async_engine(location.path, readers=READERS),
        thread=WriterThread(location.path),
    )


def _postgresql(location: DatabaseLocation) -> Database:
    server = PostgresConnections(location, connections=READERS + 2)
    return Database(location, writer=server.engine, reader=server.engine, thread=None, server=server)
