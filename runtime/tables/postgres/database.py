"""The SQL tables of all users in PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

import asyncpg

from runtime.database.connection import Database
from runtime.errors import SymbiontError
from runtime.memory.keyed_lock import KeyedLock
from runtime.tables.errors import LOOK_FIRST, QuotaExceeded, ReadOnlyStatement, StatementError, TablesUnavailable
from runtime.tables.postgres import results, usage
from runtime.tables.postgres.connections import UserConnection, UserConnections
from runtime.tables.postgres.errors import DRIVER_ERRORS, error_of, error_with_hint, no_table, too_long
from runtime.tables.postgres.logins import Login, Logins
from runtime.tables.postgres.results import BoundStatement, check_row
from runtime.tables.postgres.roles import Roles
from runtime.tables.postgres.statement import StatementPlan, check
from runtime.tables.postgres.tokens import number_parameters
from runtime.tables.postgres.usage import TableUsage
from runtime.tables.postgres.value_bounds import SHORT_PARAMETER
from runtime.tables.postgres.values import expanded_bytes
from runtime.tables.quota import Quota, rows_exceeded, storage_exceeded, tables_exceeded
from runtime.tables.sql_database import (
    MOST_IMPORT_SECONDS,
    MOST_ROW_BYTES,
    MOST_ROWS,
    MOST_SECONDS,
    Dialect,
    Parameters,
    StatementResult,
    TableInfo,
    TablePage,
    Value,
)
from runtime.tables.statement import quoted
from runtime.tables.storage import UserStorage

Result = TypeVar("Result")

WATCH_SECONDS: Final = 1.0
"""Seconds beyond MOST_SECONDS, after which a statement that the server did not cancel loses its connection."""
LOOK_SECONDS: Final = 30.0
"""Seconds after which it is looked again whether users can have tables."""
SHORT_STATEMENT: Final = 1000
"""Characters, or rows, up to which a check takes some milliseconds."""
_KEPT_STATEMENTS: Final = 300
_KEPT_LOGINS: Final = 10_000
_RECLAIMED: Final = 200
"""Deleted rows after which their space is reclaimed at once."""
_LEFT_BYTES: Final = 100_000
"""Bytes that a change may leave behind that was rolled back."""
_UNWATCHED_SECONDS: Final = 0.1
"""Seconds of a change until the growth of the tables is watched."""
_PLACE: Final = re.compile(r"\(\d{1,10},\d{1,5}\)", re.ASCII)


class PostgresTables:
    """`SqlDatabase` on PostgreSQL. See `runtime.tables.postgres`."""

    dialect: Dialect = "postgresql"

    def __init__(self, database: Database, storage: UserStorage) -> None:
        """Opens nothing; call `look` before anything else."""
        self._roles = Roles(database)
        self._logins = Logins(database, storage)
        self._storage = storage
        self._connections = UserConnections(database.location)
        self._changing = KeyedLock()
        """Changes of one user wait here for one another, and not on the few connections that the user may have."""
        self._logging_in = KeyedLock()
        self._known: OrderedDict[str, Login] = OrderedDict()
        self._plans: OrderedDict[tuple[str, int, bool], StatementPlan] = OrderedDict()
        self._noted: set[str] = set()
        self._problem: str | None = None
        self._looked_at = 0.0
        self._looking: asyncio.Task[None] | None = None

    @property
    def problem(self) -> str | None:
        """See `SqlDatabase.problem`. While there is one, it is looked again now and then: an administrator may give the
        rights that are missing."""
        if self._problem is not None and (self._looking is None or self._looking.done()):
            with suppress(RuntimeError):  # of a caller without an event loop
                if asyncio.get_running_loop().time() - self._looked_at > LOOK_SECONDS:
                    self._looking = asyncio.create_task(self.look(), name="tables: look for rights")
        return self._problem

    @property
    def connections(self) -> int:
        """See `SqlDatabase.connections`."""
        return self._connections.number

    async def look(self) -> None:
        """Find out whether users can have tables here."""
        self._looked_at = asyncio.get_running_loop().time()
        try:
            self._problem = await self._roles.reason()
        except SymbiontError as error:
            self._problem = error.line()

    async def run(
        self, user_id: str, statement: str, parameters: Parameters, quota: Quota, *, read_only: bool = False
    ) -> StatementResult:
        """See `SqlDatabase.run`."""
        bound = await self._bound_statement(statement, [parameters])
        if read_only and bound.plan.kind != "read":
            raise ReadOnlyStatement("the statement changes something, and may only read", hint="write a SELECT")
        return await self._run(user_id, bound, quota)

    async def run_for_each(
        self, user_id: str, statement: str, rows: Sequence[Parameters], quota: Quota
    ) -> StatementResult:
        """See `SqlDatabase.run_for_each`."""
        if not rows:
            return StatementResult((), (), 0, truncated=False)
        bound = await self._bound_statement(statement, rows)
        if bound.plan.kind not in ("insert", "update", "delete"):
            raise StatementError("only INSERT, UPDATE and DELETE run for many rows")
        return await self._run(user_id, bound, quota)

    async def tables(self, user_id: str) -> Sequence[TableInfo]:
        """See `SqlDatabase.tables`."""

        async def read(connection: UserConnection) -> Sequence[TableInfo]:
            found = []
            for name, columns in (await usage.columns_of_tables(connection)).items():
                count = await connection.raw.fetchval(f"SELECT pg_catalog.count(*) FROM {quoted(name)}")  # noqa: S608
                found.append(TableInfo(name, columns, count))
            return found

        return await self._reading(user_id, read, ())

    async def page(self, user_id: str, table: str, *, after: str | None = None, limit: int = MOST_ROWS) -> TablePage:
        """See `SqlDatabase.page`."""
        if after is not None and not _PLACE.fullmatch(after):
            raise StatementError("after: not the place of a page")

        async def read(connection: UserConnection) -> TablePage:
            return await results.read_page(connection, table, after, max(1, min(limit, MOST_ROWS)))

        empty = TablePage((), (), None)
        found = await self._reading(user_id, read, empty)
        if found is empty:
            raise no_table(table, ())
        return found

    async def missing_files(self) -> Sequence[str]:
        """There are no files."""
        return ()

    async def drop(self, user_id: str) -> None:
        """See `SqlDatabase.drop`."""
        name = (await self._storage.usage(user_id)).name
        self._known.pop(user_id, None)
        self._noted.discard(user_id)
        if name is None:
            return
        await self._connections.forget(name)
        await self._roles.drop(name)
        # Last, so that an end of the process in between leaves the name for the next try.
        await self._logins.forget(user_id, name)

    async def renew_keys(self) -> None:
        """See `SqlDatabase.renew_keys`. The tables have no keys, and passwords are sealed again with their rows."""

    async def close(self) -> None:
        """See `SqlDatabase.close`."""
        await self._connections.close()

    async def _bound_statement(self, statement: str, rows: Sequence[Parameters]) -> BoundStatement:
        """Check a statement and its parameters: long ones beside the event loop. Raises StatementError."""
        if len(statement) <= SHORT_STATEMENT and len(rows) <= SHORT_STATEMENT:
            return self._bind(statement, rows)
        return await asyncio.to_thread(self._bind, statement, rows)

    def _bind(self, statement: str, rows: Sequence[Parameters]) -> BoundStatement:
        """Check a statement and its parameters. Raises StatementError."""
        first = number_parameters(statement, rows[0])
        values = [first.in_order(row, at) for at, row in enumerate(rows)]
        short = all(_is_short(value) for row in values for value in row)
        size = SHORT_PARAMETER if short else MOST_ROW_BYTES
        key = (first.statement, first.number, short)
        plan = self._plans.get(key)
        if plan is None:
            plan = check(first.statement, first.number, size)
            self._plans[key] = plan
            if len(self._plans) > _KEPT_STATEMENTS:
                self._plans.popitem(last=False)
        return BoundStatement(plan, values)

    async def _run(self, user_id: str, statement: BoundStatement, quota: Quota) -> StatementResult:
        self._storage.touch(user_id)
        if statement.plan.kind == "read":
            return await self._with_connection(user_id, lambda connection: results.read(connection, statement))
        async with self._changing.of(user_id):
            seconds = MOST_IMPORT_SECONDS if len(statement.rows) > 1 else None
            try:
                return await self._with_connection(
                    user_id, lambda connection: self._change(user_id, connection, statement, quota), seconds
                )
            except (StatementError, QuotaExceeded):
                if statement.plan.counted:
                    await self._reclaim_after_rollback(user_id, statement.plan.table)
                raise

    async def _change(
        self, user_id: str, connection: UserConnection, statement: BoundStatement, quota: Quota
    ) -> StatementResult:
        plan, raw = statement.plan, connection.raw
        transaction = raw.transaction()
        await transaction.start()
        try:
            await usage.lock(connection)
            before = await usage.measure(connection)
            async with self._watch_size(user_id, connection, before, quota):
                result = await results.run(connection, statement)
            after = await usage.measure(connection)
            await _check_counts(connection, plan, before, after, result, quota)
            grown = after.bytes > before.bytes
            if grown or after.tables > before.tables or user_id not in self._noted:
                await self._storage.note_tables(user_id, after.tables, after.bytes, quota if grown else None)
        except BaseException as error:
            self._noted.discard(user_id)
            with suppress(*DRIVER_ERRORS):
                if not raw.is_closed() and not isinstance(error, (asyncio.CancelledError, TimeoutError)):
                    await transaction.rollback()
            raise
        try:
            self._noted.discard(user_id)
            await transaction.commit()
        except (asyncpg.InterfaceError, asyncpg.PostgresConnectionError, OSError) as error:
            lost = TablesUnavailable(
                "the connection to PostgreSQL was lost while the change was stored", hint=LOOK_FIRST
            )
            lost.maybe_done = True
            raise lost from error
        if plan.kind in ("define", "drop"):
            connection.forget_prepared()
        if plan.kind == "delete" and result.affected_rows >= _RECLAIMED:
            await self._reclaim(user_id, connection, plan.table)
        elif after != before and not grown:
            await self._storage.note_tables(user_id, after.tables, after.bytes)
        self._noted.add(user_id)
        return result

    @asynccontextmanager
    async def _watch_size(
        self, user_id: str, connection: UserConnection, before: TableUsage, quota: Quota
    ) -> AsyncIterator[None]:
        """Cancel the statement that runs meanwhile when its tables outgrow the quota. Raises QuotaExceeded then."""

        async def watch() -> int | None:
            await asyncio.sleep(_UNWATCHED_SECONDS)
            with suppress(SymbiontError):  # the size is looked at again at the end
                keys = (await self._storage.usage(user_id)).kv_bytes
                most = max(before.bytes, quota.storage - keys)
                await self._roles.cancel_beyond(connection.login.name, connection.process, most)
                return before.bytes + keys
            return None

        watching = asyncio.create_task(watch(), name="tables: watch the growth of a change")
        try:
            yield
        except asyncpg.QueryCanceledError as error:
            # The server has cancelled before the call that cancels returns.
            await asyncio.wait([watching], timeout=WATCH_SECONDS)
            used = watching.result() if watching.done() else None
            if used is None:
                raise
            raise storage_exceeded(quota, used) from error
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def _reclaim_after_rollback(self, user_id: str, table: str | None) -> None:
        """Return the space that a change has taken before it was rolled back: it would count towards the quota."""
        with suppress(SymbiontError):
            counted = (await self._storage.usage(user_id)).table_bytes
            measured = await self._with_connection(user_id, usage.measure)
            if measured.bytes > counted + _LEFT_BYTES:
                await self._with_connection(user_id, lambda connection: self._reclaim(user_id, connection, table))

    async def _reclaim(self, user_id: str, connection: UserConnection, table: str | None) -> None:
        """Return the space of deleted rows, and of those that a rollback has left; else autovacuum does it later."""
        with suppress(*DRIVER_ERRORS, SymbiontError):
            if table is not None:
                await connection.raw.execute(f"VACUUM {quoted(table)}")
            after = await usage.measure(connection)
            await self._storage.note_tables(user_id, after.tables, after.bytes)

    async def _reading(
        self, user_id: str, work: Callable[[UserConnection], Awaitable[Result]], nothing: Result
    ) -> Result:
        """Run `work`; return `nothing` for a user without tables."""
        if user_id not in self._known and await self._logins.find(user_id) is None:
            return nothing
        return await self._with_connection(user_id, work)

    async def _with_connection(
        self, user_id: str, work: Callable[[UserConnection], Awaitable[Result]], seconds: float | None = None
    ) -> Result:
        """Run `work` with a connection of the user. Everything of asyncpg is translated."""
        async with self._connection(user_id) as connection:
            try:
                async with asyncio.timeout((seconds or MOST_SECONDS) + WATCH_SECONDS):
                    try:
                        return await work(connection)
                    except asyncpg.InvalidCachedStatementError:
                        # Another connection has changed a table since the statement was prepared; nothing has run.
                        connection.forget_prepared()
                        return await work(connection)
            except TimeoutError:
                await self._abandon(connection)
                raise too_long() from None
            except asyncio.CancelledError:
                await self._abandon(connection)
                raise
            except (*DRIVER_ERRORS, ValueError, OverflowError) as error:
                if connection.overflowed:
                    raise results.too_large() from error
                if isinstance(error, asyncpg.InternalClientError):
                    connection.raw.terminate()
                raise await error_with_hint(connection, error) from error

    async def _abandon(self, connection: UserConnection) -> None:
        """Drop a connection that does not answer, and end its process on the server, as far as it can be ended."""
        connection.raw.terminate()
        with suppress(SymbiontError, TimeoutError):
            async with asyncio.timeout(WATCH_SECONDS):
                await self._roles.terminate(connection.login.name, connection.process)

    @asynccontextmanager
    async def _connection(self, user_id: str) -> AsyncIterator[UserConnection]:
        login = self._known.get(user_id) or await self._login(user_id)
        taken = self._connections.of(login)
        try:
            connection = await taken.__aenter__()
        except (
            asyncpg.InvalidAuthorizationSpecificationError,
            asyncpg.InvalidPasswordError,
            asyncpg.InsufficientPrivilegeError,
        ):
            # The role is gone, such as after the database was restored, or has another password, or may no longer
            # connect to the database, which was taken from everyone.
            login = await self._login(user_id, login)
            taken = self._connections.of(login)
            try:
                connection = await taken.__aenter__()
            except asyncpg.InsufficientPrivilegeError as error:
                hint = "grant CONNECT on the database to roles that begin with symbi_"
                raise TablesUnavailable("the user's role may not connect to the database", hint=hint) from error
            except DRIVER_ERRORS as error:
                raise error_of(error) from error
        except DRIVER_ERRORS as error:
            raise error_of(error) from error
        try:
            yield connection
        finally:
            await taken.__aexit__(None, None, None)

    async def _login(self, user_id: str, failed: Login | None = None) -> Login:
        """Return the login of a user. `failed`: the one that PostgreSQL refuses, if it does."""
        async with self._logging_in.of(user_id):
            known = self._known.get(user_id)
            if known is not None and known is not failed:
                return known
            login = await self._logins.find(user_id)
            if login is None or failed is not None:
                pool = await self._roles.pool()
                login = await self._logins.claim(user_id, self._roles.new_name, pool)
                name = login.name
                await self._roles.make(login, user_id, lambda: self._logins.has_login(user_id, name))
            self._known[user_id] = login
            if len(self._known) > _KEPT_LOGINS:
                self._known.popitem(last=False)
            return login


async def _check_counts(
    connection: UserConnection,
    plan: StatementPlan,
    before: TableUsage,
    after: TableUsage,
    result: StatementResult,
    quota: Quota,
) -> None:
    if plan.kind == "define":
        await usage.check_definitions(connection)
    if plan.rewrites and plan.table is not None:
        check_row(await usage.longest_row(connection, plan.table), 0)
    if quota.tables is not None and after.tables > max(quota.tables, before.tables):
        raise tables_exceeded(quota, before.tables)
    if quota.rows is not None and plan.kind == "insert" and result.affected_rows:
        assert plan.table is not None
        count = await usage.rows_beyond(connection, plan.table, quota.rows, after.bytes)
        if count is not None:
            raise rows_exceeded(quota, plan.table, max(0, count - result.affected_rows))


def _is_short(value: Value) -> bool:
    if not isinstance(value, (str, list, dict)):
        return True
    text = value if isinstance(value, str) else json.dumps(value)
    return len(text) <= SHORT_PARAMETER and expanded_bytes(text) <= SHORT_PARAMETER
