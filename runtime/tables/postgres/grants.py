"""The SQL by which an administrator of PostgreSQL gives the daemon what users' tables need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from runtime.database.connection import Database
from runtime.tables.postgres.roles import PREPARED, RIGHTS, TEMPORARY_BYTES, Roles
from runtime.tables.statement import quoted

# What the parser of statements refuses too. Not pg_advisory_xact_lock, which keeps changes of one user apart.
_CLOSED: Final = (
    "pg_sleep",
    "pg_sleep_for",
    "pg_sleep_until",
    "pg_notify",
    "pg_export_snapshot",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "query_to_xml",
    "query_to_xmlschema",
    "query_to_xml_and_xmlschema",
    "table_to_xml",
    "schema_to_xml",
    "database_to_xml",
    "cursor_to_xml",
    "lo_create",
    "lo_creat",
    "lo_from_bytea",
    "lo_put",
    "lo_open",
    "lowrite",
    "ts_stat",
)


class Facts(NamedTuple):
    """`owner`: the daemon's role; `database`: its name; `version`: of PostgreSQL; `roles`: those prepared already."""

    owner: str
    database: str
    version: int
    roles: frozenset[str]


async def grants(database: Database, *, pool: int, strict: bool) -> str:
    """Return the SQL. `pool`: number of roles to prepare; 0: the daemon may create roles. `strict`: also take from
    everyone in this database what statements of users never need. Raises `Unavailable`."""
    prefix = f"{Roles(database).prefix}{PREPARED}"
    connection = await database.session()
    try:
        owner, name = await connection.fetchrow("SELECT CURRENT_USER, pg_catalog.current_database()")
        rows = await connection.fetch(
            "SELECT rolname FROM pg_catalog.pg_roles WHERE pg_catalog.starts_with(rolname, $1)", prefix
        )
        facts = Facts(owner, name, connection.get_server_version().major, frozenset(row["rolname"] for row in rows))
    finally:
        connection.terminate()
    return "\n".join([*_grant_lines(facts, prefix, pool), *(_strict_lines(facts) if strict else ()), ""])


def _grant_lines(facts: Facts, prefix: str, pool: int) -> Sequence[str]:
    owner, database = quoted(facts.owner), quoted(facts.database)
    lines = [
        "-- To be run once by a superuser, in the database of the daemon.",
        "-- pg_hba.conf must let roles that begin with symbi_ log in to it with scram-sha-256.",
        f"GRANT CREATE ON DATABASE {database} TO {owner};",
    ]
    if not pool:
        return [*lines, f"ALTER ROLE {owner} CREATEROLE;"]
    lines.append("-- A role for each user. The daemon, a member of each, gives it a password when a user needs it.")
    for number in range(1, pool + 1):
        name = f"{prefix}{number:04}"
        role = quoted(name)
        lines += [
            *([] if name in facts.roles else [f"CREATE ROLE {role} {RIGHTS};"]),
            f"ALTER ROLE {role} SET temp_file_limit = '{TEMPORARY_BYTES}';",
            f"GRANT {role} TO {owner};",
        ]
    return lines


def _strict_lines(facts: Facts) -> Sequence[str]:
    owner, database = quoted(facts.owner), quoted(facts.database)
    names = ", ".join(f"'{name}'" for name in _CLOSED)
    lines = [
        "-- Optional, and for everyone who uses this database: what statements of users never need.",
        f"REVOKE CONNECT, TEMPORARY ON DATABASE {database} FROM PUBLIC;",
        f"GRANT CONNECT ON DATABASE {database} TO {owner} WITH GRANT OPTION;",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC;",
        f"GRANT USAGE, CREATE ON SCHEMA public TO {owner};",
        "REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC;",
    ]
    if facts.version >= 15:
        lines.append(f"GRANT SET ON PARAMETER temp_file_limit TO {owner};")
    return [
        *lines,
        "DO $$",
        "DECLARE closed regprocedure;",
        "BEGIN",
        "  FOR closed IN SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace",
        f"    AND proname IN ({names})",
        "  LOOP",
        "    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', closed);",
        f"    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', closed, {_literal(facts.owner)});",
        "  END LOOP;",
        "END $$;",
    ]


def _literal(text: Any) -> str:
    return "'" + str(text).replace("'", "''") + "'"
