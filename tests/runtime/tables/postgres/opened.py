"""SQL tables in a PostgreSQL database whose owner is no superuser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.identity import users
from runtime.identity.user_settings import UserSettingsStore
from runtime.tables.postgres.database import PostgresTables
from runtime.tables.quota import TIERS, Quota
from runtime.tables.sql_database import Parameters, StatementResult
from runtime.tables.storage import UserStorage
from tests.conftest import KEY

FREE = TIERS["free"]


class Place(NamedTuple):
    """A database. `url`: as its owner; `server`: as a superuser, in that database."""

    url: str
    server: str


class Opened(NamedTuple):
    """Open tables, and two users."""

    database: Database
    storage: UserStorage
    tables: PostgresTables
    ada: str
    eve: str

    async def run(self, user_id: str, sql: str, values: Parameters = (), quota: Quota = FREE) -> StatementResult:
        return await self.tables.run(user_id, sql, values, quota)

    async def name(self, user_id: str) -> str:
        """The name of the user's role and schema."""
        name = (await self.storage.usage(user_id)).name
        assert name is not None
        return name


@contextmanager
def owned_database(server: str, rights: str = "CREATEROLE") -> Iterator[Place]:
    """Make an empty database that belongs to a new role with these rights."""
    name, password = f"test_{uuid4().hex}", uuid4().hex
    asyncio.run(
        execute(
            server,
            f"CREATE ROLE {name} LOGIN NOSUPERUSER {rights} PASSWORD '{password}'",
            f"CREATE DATABASE {name} OWNER {name}",
        )
    )
    yield Place(url_of(server, name, name, password), url_of(server, name))
    asyncio.run(_remove(server, name))


def url_of(server: str, database: str, user: str | None = None, password: str = "") -> str:
    parts = urlsplit(server)
    netloc = parts.netloc if user is None else f"{user}:{password}@{parts.netloc.rpartition('@')[2]}"
    return urlunsplit(parts._replace(netloc=netloc, path=f"/{database}"))


@asynccontextmanager
async def open_tables(url: str, clock: Clock) -> AsyncIterator[Opened]:
    database = await Database.open(url, KEY)
    storage = UserStorage(database, clock, UserSettingsStore(database, clock), TIERS, "free")
    tables = PostgresTables(database, storage)
    try:
        await tables.look()
        ada, eve = [await users.add(database, f"{name}{uuid4().hex[:8]}", 0) for name in ("ada", "eve")]
        yield Opened(database, storage, tables, ada, eve)
    finally:
        await tables.close()
        await database.close()


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def fetch(url: str, query: str, *values: Any) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch(query, *values))
    finally:
        await connection.close()


async def _remove(server: str, name: str) -> None:
    connection = await asyncpg.connect(server)
    try:
        members = await connection.fetch(
            "SELECT DISTINCT r.rolname FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid"
            " JOIN pg_roles o ON o.oid = m.member WHERE o.rolname = $1 AND r.rolname LIKE 'symbi%'",
            name,
        )
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        for (role,) in members:
            await connection.execute(f'DROP ROLE "{role}"')
        await connection.execute(f"DROP OWNED BY {name}")  # rights on parameters of the server
        await connection.execute(f"DROP ROLE {name}")
    finally:
        await connection.close()
