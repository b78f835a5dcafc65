"""The tables of an index in PostgreSQL, created and checked under a lock that all daemons share."""

from __future__ import annotations

import re
import time
from typing import Any, NamedTuple

import asyncpg

from runtime.search.errors import IndexFailed
from runtime.search.index.postgres.text import hash_of, quoted

VERSION = "4"
"""Stored in `meta`: tables of another version are dropped and created again."""

TABLES = """
CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);
CREATE SEQUENCE keys START {first};
CREATE TABLE parts (
    key bigint PRIMARY KEY DEFAULT nextval('keys'), name text NOT NULL, agent text NOT NULL, revision text NOT NULL
);
CREATE INDEX parts_by_name ON parts USING hash (name);
CREATE INDEX parts_by_agent ON parts USING hash (agent);
CREATE TABLE entries (
    key bigint PRIMARY KEY, hash text NOT NULL, content bytea NOT NULL, position bytea NOT NULL, part bigint NOT NULL,
    text text NOT NULL, "group" text NOT NULL, line bigint, rest text NOT NULL, words tsvector NOT NULL
);
CREATE INDEX entries_by_part ON entries (part);
CREATE INDEX entries_by_word ON entries USING gin (words);
CREATE TABLE entry_facts (
    key bigint PRIMARY KEY REFERENCES entries ON DELETE CASCADE, id text NOT NULL, agent text NOT NULL,
    "user" text NOT NULL, project text, type text NOT NULL, time bigint NOT NULL, "order" bigint NOT NULL, source text,
    other_sources text[] NOT NULL, tags text[] NOT NULL, author text, subject text, replaces text, retracts text,
    asks boolean NOT NULL, words integer NOT NULL, neighbour_group bigint, before bigint NOT NULL,
    after bigint NOT NULL, embedded boolean NOT NULL, tokenized boolean NOT NULL
) WITH (fillfactor = 85);
CREATE INDEX entry_facts_by_id ON entry_facts USING hash (id);
CREATE INDEX entry_facts_by_agent ON entry_facts USING hash (agent);
CREATE INDEX entry_facts_by_user ON entry_facts USING hash ("user");
CREATE INDEX entry_facts_by_subject ON entry_facts USING hash (subject);
CREATE INDEX entry_facts_by_replaced ON entry_facts USING hash (replaces);
CREATE INDEX entry_facts_by_retracted ON entry_facts USING hash (retracts);
CREATE INDEX entry_facts_by_group ON entry_facts (neighbour_group) WHERE neighbour_group IS NOT NULL;
CREATE INDEX entry_facts_without_vector ON entry_facts (time DESC, key) WHERE NOT embedded;
CREATE INDEX entry_facts_without_tokens ON entry_facts (time DESC, key) WHERE embedded AND NOT tokenized;
CREATE TABLE vectors (key bigint PRIMARY KEY REFERENCES entries ON DELETE CASCADE, vector vector NOT NULL);
ALTER TABLE vectors ALTER COLUMN vector SET STORAGE MAIN;
CREATE TABLE tokens (
    key bigint PRIMARY KEY REFERENCES entries ON DELETE CASCADE, bits bytea NOT NULL
) WITH (toast_tuple_target = 8160);
ALTER TABLE tokens ALTER COLUMN bits SET STORAGE EXTERNAL;
"""
"""A key is never reused: keys of recreated tables begin above all earlier ones. `entry_facts` is narrow, because
filters read it: `neighbour_group` is a hash of an agent's group, `before` and `after` are the keys of the neighbours,
`words` is the number of words. `vectors` gets its HNSW index with the first vector, whose dimension it needs. Token
bits are in the rows themselves, which takes half the time to read of values stored aside, and are not compressed
because that gains nothing.
"""

NAMES = frozenset({"meta", "parts", "entries", "entry_facts", "vectors", "tokens"})


class CreatedTables(NamedTuple):
    """The server's pgvector version and schema, and why tables had to be dropped, if so."""

    vector: tuple[int, ...]
    vector_schema: str
    dropped: str | None = None


async def ensure_tables(connection: Any, schema: str, name: str, shown: str) -> CreatedTables:
    """Create the tables that are missing. `name`: of the index. Raises IndexFailed, asyncpg's errors and OSError."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", hash_of("symbiont index extension"))
        version, where = await _ensure_extension(connection, shown)
    dropped = None
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", lock_of(schema))
        await _ensure_schema(connection, schema, shown)
        # Unqualified names are in the schema; pgvector may be in any schema.
        await connection.execute(f"SET LOCAL search_path = {quoted(schema)}, {quoted(where)}")
        state = await _state(connection, schema, name, shown)
        if state != "":
            dropped = state
            if state is not None:
                await _drop_tables(connection, schema)
            await connection.execute(TABLES.format(first=int(time.time() * 1000) << 8))
            await connection.executemany(
                "INSERT INTO meta (name, value) VALUES ($1, $2)",
                [("product", "symbiont index"), ("version", VERSION), ("of", name)],
            )
    return CreatedTables(version, where, dropped)


def lock_of(schema: str) -> int:
    """Return the advisory lock of writers to the schema."""
    return hash_of(f"symbiont index {schema}")


_EXTENSION = (
    "SELECT extversion, nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
)


_CREATE = "CREATE EXTENSION IF NOT EXISTS vector"


async def _ensure_extension(connection: Any, shown: str) -> tuple[tuple[int, ...], str]:
    found = await connection.fetchrow(_EXTENSION)
    if found is None:
        try:
            async with connection.transaction():
                await connection.execute(_CREATE)
        except asyncpg.InsufficientPrivilegeError as error:
            raise IndexFailed(
                f"the index in {shown} needs the extension vector, and this user may not create it",
                hint="have an administrator run CREATE EXTENSION vector in that database",
            ) from error
        except (asyncpg.FeatureNotSupportedError, asyncpg.UndefinedFileError, asyncpg.UndefinedObjectError) as error:
            raise IndexFailed(
                f"the index in {shown} needs pgvector, which the server does not have",
                hint="install pgvector on the server (github.com/pgvector/pgvector), then CREATE EXTENSION vector",
            ) from error
        found = await connection.fetchrow(_EXTENSION)
    version = tuple(map(int, re.findall(r"\d+", found["extversion"])))
    if version < (0, 5):
        raise IndexFailed(
            f"the index in {shown} needs pgvector 0.5 or later, and the server has {found['extversion']}",
            hint="install a later one, then ALTER EXTENSION vector UPDATE",
        )
    return version, found["nspname"]


async def _ensure_schema(connection: Any, schema: str, shown: str) -> None:
    if await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema):
        return
    try:
        async with connection.transaction():
            await connection.execute(f"CREATE SCHEMA {quoted(schema)}")
    except asyncpg.InsufficientPrivilegeError as error:
        raise IndexFailed(
            f"the index in {shown}: this user may not create the schema {schema}",
            hint="have an administrator run GRANT CREATE ON DATABASE … TO …, or CREATE SCHEMA … AUTHORIZATION …",
        ) from error


async def _state(connection: Any, schema: str, name: str, shown: str) -> str | None:
    """Return None if the schema is empty, "" if our tables are there, else why they must be created again."""
    found = {
        row[0]
        for row in await connection.fetch(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1", schema
        )
    }
    if not found:
        return None
    meta: dict[str, str] = {}
    if "meta" in found:
        try:
            async with connection.transaction():
                meta = dict(await connection.fetch("SELECT name, value FROM meta"))
        except asyncpg.PostgresError:
            meta = {}
    if meta.get("product") != "symbiont index":
        raise IndexFailed(
            f"the index in {shown}: the schema {schema} contains tables that do not belong to this index",
            hint="name another `schema`, or drop that one",
        )
    if meta.get("of") != name:
        raise IndexFailed(
            f"the index in {shown}: the schema {schema} contains the index of another memory, {meta.get('of')}",
            hint="name another `schema`, or drop that one: an index is rebuilt from its store",
        )
    if meta.get("version") != VERSION:
        return f"its tables have version {meta.get('version')}, not {VERSION}"
    missing = sorted(NAMES - found)
    return f"tables are missing: {', '.join(missing)}" if missing else ""


async def _drop_tables(connection: Any, schema: str) -> None:
    """Drop all our tables in a schema; the schema itself may belong to another role."""
    for kind, relkind in (("TABLE", "r"), ("SEQUENCE", "S")):
        for row in await connection.fetch(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE nspname = $1 AND relkind::text = $2",
            schema,
            relkind,
        ):
            await connection.execute(f"DROP {kind} IF EXISTS {quoted(schema)}.{quoted(row[0])} CASCADE")
