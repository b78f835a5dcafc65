"""The schema and the login role of each user, made and dropped by the daemon's own role.

The schema belongs to the daemon, so that it can be dropped whatever is in it; the user's role may use it and create
tables in it, and has rights on nothing else. The daemon is a member of the role, never the other way round. Either the
daemon may create roles (CREATEROLE), or it has a pool of prepared ones; see `grants`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import asyncpg
import structlog

from runtime.database.connection import Database
from runtime.identity import users
from runtime.tables.postgres.errors import DRIVER_ERRORS, error_of
from runtime.tables.postgres.logins import Login
from runtime.tables.statement import quoted

OLDEST: Final = 13
"""Oldest version of PostgreSQL."""
MOST_CONNECTIONS: Final = 6
"""Maximum connections of a user's role, of all daemons together, with those that do not answer."""
RIGHTS: Final = (
    f"LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS CONNECTION LIMIT {MOST_CONNECTIONS}"
)
"""Rights of a user's role."""
_SECONDS: Final = 10
"""Maximum seconds of a statement here."""
_MOST_MADE_AT_ONCE: Final = 5
"""Roles that are made at once, each on a connection of its own."""
_BATCH: Final = 50
"""Tables that are dropped in one transaction: each takes several of the server's locks."""
_LOOK_SECONDS: Final = 0.05
_CANCEL: Final = (
    "SELECT pg_catalog.pg_cancel_backend($2) FROM (SELECT pg_catalog.sum(pg_catalog.pg_total_relation_size(c.oid))"
    " AS bytes FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = $1 AND c.relkind IN ('r', 'S')) AS tables WHERE bytes > $3"
)
TEMPORARY_BYTES: Final = "256MB"
_MARK: Final = "SELECT pg_catalog.obj_description(oid, 'pg_namespace') FROM pg_catalog.pg_namespace WHERE nspname = $1"
"""Reads whose schema it is: a hash of the user's id."""
_log = structlog.get_logger("symbiont.tables")


class Roles:
    """Makes and drops roles and schemas. Its methods raise `TablesUnavailable` if PostgreSQL does not respond."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._making = asyncio.Semaphore(_MOST_MADE_AT_ONCE)
        self.prefix = f"symbi_{database.id[:8]}_"
        """Prefix of the names of this database's roles; roles belong to the whole server."""

    def new_name(self) -> str:
        """Return a new name for a role and its schema."""
        return f"{self.prefix}{secrets.token_hex(8)}"

    async def reason(self) -> str | None:
        """Return in one line why users cannot have tables; None: they can."""
        async with self._connection() as connection:
            if connection.get_server_version().major < OLDEST:
                return f"SQL tables need PostgreSQL {OLDEST} or newer"
            creates_schemas = await connection.fetchval(
                "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')"
            )
            if creates_schemas and (await _creates_roles(connection) or await self._pool(connection)):
                return None
            lacking = "create schemas" if not creates_schemas else "create roles, and has no prepared ones"
            return f"the role of the database may not {lacking}: run the SQL that `symbi database grant-sql` prints"

    async def pool(self) -> Sequence[str] | None:
        """Return the names of prepared roles; None if roles can be created."""
        async with self._connection() as connection:
            return None if await _creates_roles(connection) else await self._pool(connection)

    async def make(self, login: Login, user_id: str, still_held: Callable[[], Awaitable[bool]]) -> None:
        """Make the role and the schema of a user's login unless they exist, and set its password.

        Raises NotFound unless `still_held`, which is asked when nothing else makes or drops this role: of a user who
        was removed meanwhile nothing is made, for nothing would drop it. A schema of another user, whose removal was
        interrupted, is dropped first.
        """
        name = quoted(login.name)
        mark = hashlib.sha256(user_id.encode()).hexdigest()
        async with self._making, self._connection() as connection, connection.transaction():
            await _lock(connection, login.name)
            if not await still_held():
                raise users.removed_error()
            existed = await _exists(connection, login.name)
            if not existed:
                await connection.execute(f"CREATE ROLE {name} {RIGHTS}")
                await connection.execute(f"GRANT {name} TO CURRENT_USER")
            if await connection.fetchval(_MARK, login.name) != mark:
                await connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
                if existed:
                    await _terminate(connection, login.name)
                    await self._drop_owned(connection, login.name)
            await self._set_password(connection, login.name, scram_verifier(login.password))
            await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
            await connection.execute(f"COMMENT ON SCHEMA {name} IS '{mark}'")
            await connection.execute(f"REVOKE ALL ON SCHEMA {name} FROM PUBLIC")
            await connection.execute(f"GRANT USAGE, CREATE ON SCHEMA {name} TO {name}")
            await self._optional(connection, login.name)

    async def drop(self, name: str) -> None:
        """Drop the schema and the role, and all that belongs to the role; a prepared role stays for another user."""
        async with self._connection() as connection:
            if await _exists(connection, name):
                async with connection.transaction():
                    await _lock(connection, name)
                    await self._set_password(connection, name, None)
                await _terminate(connection, name)
            await self._drop_tables(connection, name)
            async with connection.transaction():
                await _lock(connection, name)
                await connection.execute(f"DROP SCHEMA IF EXISTS {quoted(name)} CASCADE")
                if await _exists(connection, name):
                    await self._drop_role(connection, name)

    async def terminate(self, name: str, process: int) -> None:
        """End a connection of a role that does not answer, by its process on the server."""
        async with self._connection() as connection:
            await connection.fetch(
                "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
                " WHERE pid = $1 AND usename = $2",
                process,
                name,
            )

    async def cancel_beyond(self, name: str, process: int, most: int) -> None:
        """Cancel what a process runs when the tables in this schema, with what is not committed, have more than `most`
        bytes. Returns after that; until then the caller cancels it."""
        async with self._connection() as connection:
            while True:
                if await connection.fetch(_CANCEL, name, process, most):
                    return
                await asyncio.sleep(_LOOK_SECONDS)

    async def _drop_tables(self, connection: Any, name: str) -> None:
        while names := await connection.fetch(
            "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = $1 AND c.relkind = 'r' LIMIT $2",
            name,
            _BATCH,
        ):
            tables = ", ".join(f"{quoted(name)}.{quoted(each['relname'])}" for each in names)
            await connection.execute(f"DROP TABLE IF EXISTS {tables} CASCADE")

    async def _drop_owned(self, connection: Any, name: str) -> None:
        await _lock(connection, self.prefix)
        await connection.execute(f"SET LOCAL ROLE {quoted(name)}")
        await connection.execute(f"DROP OWNED BY {quoted(name)}")
        await connection.execute("RESET ROLE")

    async def _drop_role(self, connection: Any, name: str) -> None:
        await self._drop_owned(connection, name)
        database = quoted(await connection.fetchval("SELECT pg_catalog.current_database()"))
        await _try(connection, f"REVOKE ALL ON DATABASE {database} FROM {quoted(name)}")
        if self._is_prepared(name) or not await _creates_roles(connection):
            return
        try:
            async with connection.transaction():
                await connection.execute(f"DROP ROLE {quoted(name)}")
        except asyncpg.DependentObjectsStillExistError:
            # A copy of this database on the same server has the same names. The role can no longer log in.
            _log.warning("role_kept", role=name, reason="another database of this server has objects of it")

    @staticmethod
    async def _set_password(connection: Any, name: str, verifier: str | None) -> None:
        # As the role itself, which needs no right of the daemon but to be a member of it.
        await connection.execute(f"SET LOCAL ROLE {quoted(name)}")
        password = "NULL" if verifier is None else f"'{verifier}'"
        await connection.execute(f"ALTER ROLE {quoted(name)} PASSWORD {password}")
        await connection.execute("RESET ROLE")

    async def _optional(self, connection: Any, name: str) -> None:
        """Do what only the owner of the database, or a role with more rights, can do."""
        row = await connection.fetchrow(
            "SELECT datname, pg_catalog.pg_has_role(datdba, 'USAGE') AS owns,"
            " pg_catalog.has_database_privilege('public', datname, 'CONNECT') AS connect,"
            " pg_catalog.has_database_privilege('public', datname, 'TEMPORARY') AS temporary"
            " FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
        )
        database = quoted(row["datname"])
        await _try(connection, f"ALTER ROLE {quoted(name)} SET temp_file_limit = '{TEMPORARY_BYTES}'")
        statements = []
        if not row["connect"]:
            statements.append(f"GRANT CONNECT ON DATABASE {database} TO {quoted(name)}")
        if row["owns"] and row["temporary"]:
            statements.append(f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC")
        if statements:
            await _lock(connection, self.prefix)
        for statement in statements:
            await _try(connection, statement)

    async def _pool(self, connection: Any) -> Sequence[str]:
        rows = await connection.fetch(
            "SELECT rolname FROM pg_catalog.pg_roles WHERE pg_catalog.starts_with(rolname, $1) AND rolcanlogin"
            " AND NOT rolsuper AND pg_catalog.pg_has_role(oid, 'MEMBER') ORDER BY rolname",
            f"{self.prefix}{PREPARED}",
        )
        return [row["rolname"] for row in rows]

    def _is_prepared(self, name: str) -> bool:
        return name.startswith(f"{self.prefix}{PREPARED}")

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        connection = None
        try:
            connection = await self._database.session()
            await connection.execute(
                f"SET statement_timeout = '{_SECONDS}s'; SET lock_timeout = '{_SECONDS - 1}s';"
                " SET search_path = pg_catalog"
            )
            yield connection
        except DRIVER_ERRORS as error:
            raise error_of(error) from error
        finally:
            if connection is not None:
                connection.terminate()


PREPARED: Final = "pool_"
"""Pattern of the names of prepared roles, after the prefix."""


def scram_verifier(password: str) -> str:
    """Return what PostgreSQL stores of a password (RFC 5803), so that the password is in no log of the server."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 4096)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt_text, stored_text, server_text = (base64.b64encode(each).decode() for each in (salt, stored, server))
    return f"SCRAM-SHA-256$4096:{salt_text}${stored_text}:{server_text}"


async def _try(connection: Any, statement: str) -> None:
    """Run what may be beyond the rights of the daemon's role."""
    with suppress(asyncpg.InsufficientPrivilegeError):
        async with connection.transaction():
            await connection.execute(statement)


async def _creates_roles(connection: Any) -> bool:
    return bool(
        await connection.fetchval(
            "SELECT rolcreaterole OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = CURRENT_USER"
        )
    )


async def _exists(connection: Any, name: str) -> bool:
    return bool(await connection.fetchval("SELECT true FROM pg_catalog.pg_roles WHERE rolname = $1", name))


async def _terminate(connection: Any, name: str) -> None:
    await connection.fetch(
        "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE usename = $1", name
    )


async def _lock(connection: Any, name: str) -> None:
    """Wait for others who change this role. With the prefix of all roles, after that: for others who change rights on
    the database, of which PostgreSQL refuses two at once."""
    await connection.fetchval("SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))", name)
