"""The tables of an index in PostgreSQL, created and checked under a lock that all daemons share."""

from __future__ import annotations

import re
import time
from typing import Any, NamedTuple

import asyncpg

from runtime.search.errors import IndexFailed
from runtime.search.index.postgres import sizes
from runtime.search.index.postgres.stemming import code

VERSION = "3"
"""Stored in `meta`: tables of another version are dropped and created again. Tables that are only added leave it as it
is, so that a program without them works beside this one."""

_TABLES = ("meta", "parts", "entries", "places", "words", "vectors", "waiting", "totals", "changes")
_ADDED_TABLES = ("tokens", "waiting_tokens")
_CONTENT = ", ".join(table for table in _TABLES if table != "meta")

MAKE = """
CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);
CREATE SEQUENCE keys START {first};
CREATE TABLE parts (
    key bigint PRIMARY KEY DEFAULT nextval('keys'), name text NOT NULL, agent text NOT NULL, revision text NOT NULL
);
CREATE INDEX parts_of_name ON parts USING hash (name);
CREATE INDEX parts_of_agent ON parts USING hash (agent);
CREATE TABLE entries (
    key bigint PRIMARY KEY, id text NOT NULL, hash text NOT NULL, says bytea NOT NULL, stands bytea NOT NULL,
    part bigint NOT NULL, circle bigint, text text NOT NULL, "group" text NOT NULL, line bigint, rest text NOT NULL,
    other_sources text[] NOT NULL, tags text[] NOT NULL
);
CREATE INDEX entries_of_id ON entries USING hash (id);
CREATE INDEX entries_of_part ON entries (part);
CREATE TABLE places (
    key bigint PRIMARY KEY, agent text NOT NULL, "user" text NOT NULL, project text, type text NOT NULL, source text,
    other_sources bigint[] NOT NULL, author text, time bigint NOT NULL, "order" bigint NOT NULL,
    tags bigint[] NOT NULL, asks boolean NOT NULL,
    circle bigint, before bigint NOT NULL DEFAULT 0, after bigint NOT NULL DEFAULT 0,
    text_size integer NOT NULL, about_size integer NOT NULL, size integer NOT NULL,
    subject text, hidden boolean NOT NULL DEFAULT false
) WITH (fillfactor = 85);
CREATE INDEX places_of_circle ON places (circle, time, "order") WHERE circle IS NOT NULL;
CREATE INDEX places_of_agent ON places USING hash (agent);
CREATE INDEX places_of_user ON places USING hash ("user");
CREATE INDEX places_of_subject ON places USING hash (subject);
CREATE INDEX places_of_project ON places USING hash (project);
CREATE INDEX places_of_source ON places USING hash (source);
CREATE INDEX places_of_other_source ON places USING gin (other_sources);
CREATE INDEX places_of_tag ON places USING gin (tags);
CREATE TABLE words (key bigint PRIMARY KEY, words tsvector NOT NULL, often jsonb NOT NULL);
CREATE INDEX words_of ON words USING gin (words);
CREATE TABLE vectors (key bigint PRIMARY KEY, vector vector NOT NULL);
ALTER TABLE vectors ALTER COLUMN vector SET STORAGE MAIN;
CREATE TABLE waiting (key bigint PRIMARY KEY, time bigint NOT NULL);
CREATE INDEX waiting_newest ON waiting (time DESC, key);
CREATE TABLE changes (key bigint PRIMARY KEY, replaces text, retracts text);
CREATE INDEX changes_replaces ON changes USING hash (replaces);
CREATE INDEX changes_retracts ON changes USING hash (retracts);
CREATE TABLE totals (
    agent text NOT NULL, "user" text NOT NULL, author text, entries bigint NOT NULL, size bigint NOT NULL
);
CREATE FUNCTION add_totals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO {schema}.totals
        SELECT agent, "user", author, -count(*), -sum(size) FROM stale GROUP BY agent, "user", author;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO {schema}.totals
        SELECT agent, "user", author, count(*), sum(size) FROM fresh GROUP BY agent, "user", author;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER put AFTER INSERT ON places REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION add_totals();
CREATE TRIGGER changed AFTER UPDATE ON places REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION add_totals();
CREATE TRIGGER removed AFTER DELETE ON places REFERENCING OLD TABLE AS stale
    FOR EACH STATEMENT EXECUTE FUNCTION add_totals();
"""
"""A key is never reused: keys of recreated tables begin above all earlier ones.

`words` has each entry's stems without positions, and in `often` the counts of stems that occur more than once: counts
of the text times 2^32, plus those of the metadata. `places` has the filtered columns, the neighbours, and the number of
words; a `circle` is an agent's group, and `tags` and `other_sources` are hashes, so that their length does not matter
to an index. `changes` has the entries that replace or retract others, and `places.hidden` follows from it (see
`runtime.memory.succession`). `totals` has what was added and removed, so that no search counts entries.
"""

MAKE_TOKENS = """
CREATE TABLE tokens (key bigint PRIMARY KEY, bits bytea NOT NULL) WITH (toast_tuple_target = 8160);
ALTER TABLE tokens ALTER COLUMN bits SET STORAGE EXTERNAL;
CREATE TABLE waiting_tokens (key bigint PRIMARY KEY, time bigint NOT NULL);
CREATE INDEX waiting_tokens_newest ON waiting_tokens (time DESC, key);
CREATE OR REPLACE FUNCTION forget_tokens() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        TRUNCATE {schema}.tokens, {schema}.waiting_tokens;
    ELSE
        DELETE FROM {schema}.tokens t USING stale WHERE t.key = stale.key;
        DELETE FROM {schema}.waiting_tokens w USING stale WHERE w.key = stale.key;
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION want_tokens() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    INSERT INTO {schema}.waiting_tokens (key, time)
    SELECT key, time FROM embedded e WHERE EXISTS (SELECT FROM {schema}.meta WHERE name = 'tokens')
        AND EXISTS (SELECT FROM {schema}.vectors v WHERE v.key = e.key)
        AND NOT EXISTS (SELECT FROM {schema}.tokens t WHERE t.key = e.key)
    ON CONFLICT (key) DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER removed_tokens AFTER DELETE ON places REFERENCING OLD TABLE AS stale
    FOR EACH STATEMENT EXECUTE FUNCTION forget_tokens();
CREATE TRIGGER cleared_tokens AFTER TRUNCATE ON places FOR EACH STATEMENT EXECUTE FUNCTION forget_tokens();
CREATE TRIGGER changed_tokens AFTER INSERT ON waiting REFERENCING NEW TABLE AS stale
    FOR EACH STATEMENT EXECUTE FUNCTION forget_tokens();
CREATE TRIGGER missing_tokens AFTER DELETE ON waiting REFERENCING OLD TABLE AS embedded
    FOR EACH STATEMENT EXECUTE FUNCTION want_tokens();
"""
"""Added to tables that an earlier program made, and kept right by triggers, because that program may still write to the
others: bits of removed entries and of earlier texts are deleted, and entries whose vector was stored without them are
noted in `waiting_tokens`. `tokens` has bits only of entries in `vectors`. They are in the rows themselves, which takes
half the time to read of values stored aside, and are not compressed because that gains nothing. The functions use the
indexes whatever the planner expects: their plans are kept, and may be made while the tables are empty.
"""

CLEAR = f"TRUNCATE {_CONTENT}"


class CreatedTables(NamedTuple):
    """The server's pgvector version and schema, and why tables had to be dropped, if so."""

    vector: tuple[int, ...]
    vector_schema: str
    dropped: str | None = None


async def ready(connection: Any, schema: str, name: str, shown: str) -> CreatedTables:
    """Create what is missing. `name`: of the index. Raises IndexFailed, asyncpg's errors and OSError."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", code("symbiont index extension"))
        version, where = await _extension(connection, shown)
    dropped = None
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", lock_of(schema))
        await _schema(connection, schema, shown)
        # Unqualified names are in the schema; pgvector may be in any schema.
        await connection.execute(f"SET LOCAL search_path = {quoted(schema)}, {quoted(where)}")
        state = await _state(connection, schema, name, shown)
        if state != "":
            dropped = state
            if state is not None:
                await _drop(connection, schema)
            await connection.execute(MAKE.format(schema=quoted(schema), first=int(time.time() * 1000) << 8))
            await connection.executemany(
                "INSERT INTO meta (name, value) VALUES ($1, $2)",
                [("product", "symbiont index"), ("version", VERSION), ("of", name), sizes.NOTHING_TO_RENEW],
            )
        if await connection.fetchval("SELECT to_regclass($1)", f"{quoted(schema)}.tokens") is None:
            await connection.execute(MAKE_TOKENS.format(schema=quoted(schema)))
    return CreatedTables(version, where, dropped)


def lock_of(schema: str) -> int:
    """Return the advisory lock of writers to the schema."""
    return code(f"symbiont index {schema}")


def quoted(name: str) -> str:
    """Return a quoted SQL name."""
    return '"' + name.replace('"', '""') + '"'


_EXTENSION = (
    "SELECT extversion, nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
)


_CREATE = "CREATE EXTENSION IF NOT EXISTS vector"


async def _extension(connection: Any, shown: str) -> tuple[tuple[int, ...], str]:
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


async def _schema(connection: Any, schema: str, shown: str) -> None:
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
    added = found.intersection(_ADDED_TABLES)
    missing = [table for table in (*_TABLES, *(_ADDED_TABLES if added else ())) if table not in found]
    return f"tables are missing: {', '.join(missing)}" if missing else ""


async def _drop(connection: Any, schema: str) -> None:
    """Drop all our tables in a schema; the schema itself may belong to another role."""
    for kind, relkind in (("TABLE", "r"), ("SEQUENCE", "S")):
        for row in await connection.fetch(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE nspname = $1 AND relkind::text = $2",
            schema,
            relkind,
        ):
            await connection.execute(f"DROP {kind} IF EXISTS {quoted(schema)}.{quoted(row[0])} CASCADE")
    for function in ("add_totals", "forget_tokens", "want_tokens"):
        await connection.execute(f"DROP FUNCTION IF EXISTS {quoted(schema)}.{function} CASCADE")
