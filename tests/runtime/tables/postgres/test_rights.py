"""The role of a user has rights on the user's schema alone, and roles come from CREATEROLE or from a prepared pool."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import asyncpg
import pytest

from runtime.database.connection import Database
from runtime.errors import NotFound
from runtime.identity import users
from runtime.tables.errors import StatementError, TablesUnavailable
from runtime.tables.postgres.grants import grants
from runtime.tables.postgres.logins import Logins
from tests.clocks import ManualClock, until
from tests.runtime.tables.postgres.opened import (
    Opened,
    Place,
    execute,
    fetch,
    open_tables,
    owned_database,
    url_of,
)

FORBIDDEN = (
    "SELECT * FROM {ada}.notes",
    "INSERT INTO {ada}.notes VALUES (1)",
    "DROP TABLE {ada}.notes",
    "CREATE TABLE {ada}.x (a int)",
    "ALTER SCHEMA {own} RENAME TO x",
    "DROP SCHEMA {own} CASCADE",
    "GRANT USAGE ON SCHEMA {own} TO PUBLIC; SELECT 1 / (has_schema_privilege('{ada}', '{own}', 'USAGE'))::int",
    "SELECT * FROM public.users",
    "SELECT * FROM public.user_storage",
    "SELECT * FROM public.meta",
    "SELECT * FROM symbiont_keys.keys",
    "CREATE TABLE public.x (a int)",
    "CREATE SCHEMA x",
    "CREATE TEMP TABLE x (a int)",
    "CREATE ROLE x",
    "ALTER ROLE {own} SUPERUSER",
    "ALTER ROLE {own} CREATEROLE",
    "ALTER ROLE {own} CONNECTION LIMIT 100",
    "ALTER ROLE {own} BYPASSRLS",
    "ALTER ROLE {ada} PASSWORD 'x'",
    "SET ROLE {ada}",
    "SET ROLE {owner}",
    "SET SESSION AUTHORIZATION {owner}",
    "GRANT {owner} TO {own}",
    "CREATE EXTENSION dblink",
    "CREATE DATABASE x",
    "ALTER DATABASE {database} SET work_mem = '1MB'",
    "COPY (SELECT 1) TO '/tmp/x'",
    "COPY (SELECT 1) TO PROGRAM 'id'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{owner}'",
    "SELECT rolpassword FROM pg_authid",
    "CREATE FUNCTION {own}.f() RETURNS int LANGUAGE c AS 'x'",
    "CREATE TRIGGER t AFTER INSERT ON public.users EXECUTE FUNCTION f()",
    "ALTER SYSTEM SET fsync = off",
)
"""What the role is refused, also when it does not come through the parser of statements."""


async def test_a_role_that_logs_in_by_itself_reaches_nothing_but_its_own_schema(opened: Opened, place: Place) -> None:
    for user in (opened.ada, opened.eve):
        await opened.run(user, "CREATE TABLE notes (id int)")
    own, ada = await opened.name(opened.eve), await opened.name(opened.ada)
    logins = Logins(opened.database, opened.storage)
    login = await logins.find(opened.eve)
    assert login is not None
    assert login.password not in repr(login)
    owner = (await fetch(place.url, "SELECT CURRENT_USER"))[0][0]
    role = await asyncpg.connect(url_of(place.url, owner, own, login.password))
    try:
        await role.execute(f"CREATE TABLE {own}.mine (a int)")
        passed = []
        for statement in FORBIDDEN:
            try:
                await role.execute(statement.format(ada=ada, own=own, owner=owner, database=owner))
            except asyncpg.PostgresError:
                continue
            passed.append(statement)
        assert passed == []
        rights = await role.fetchrow(
            "SELECT rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls, rolconnlimit"
            " FROM pg_roles WHERE rolname = CURRENT_USER"
        )
        assert tuple(rights) == (False, False, False, False, False, False, 6)
        assert not await role.fetchval("SELECT count(*) FROM pg_auth_members WHERE member = CURRENT_USER::regrole")
        # What no owner of a database can take away: documented in docs/tables.md.
        await role.execute("SELECT pg_sleep(0), pg_notify('a', 'b'), lo_create(0)")
    finally:
        await role.close()
    await opened.tables.drop(opened.eve)
    assert await fetch(place.server, "SELECT 1 FROM pg_roles WHERE rolname = $1", own) == []
    assert await fetch(place.server, "SELECT 1 FROM pg_namespace WHERE nspname = $1", own) == []
    assert await fetch(place.server, "SELECT 1 FROM pg_largeobject_metadata") == []


async def test_the_password_is_in_no_table_and_no_statement(opened: Opened, place: Place) -> None:
    await opened.run(opened.eve, "CREATE TABLE notes (id int)")
    login = await Logins(opened.database, opened.storage).find(opened.eve)
    assert login is not None
    stored = await fetch(place.server, "SELECT u::text || secret::text FROM user_storage u")
    verifier = await fetch(place.server, "SELECT rolpassword FROM pg_authid WHERE rolname = $1", login.name)
    assert login.password not in str(stored)
    assert verifier[0][0].startswith("SCRAM-SHA-256$4096:")


async def test_a_role_or_a_schema_that_is_lost_is_made_again(opened: Opened, place: Place) -> None:
    await opened.run(opened.eve, "CREATE TABLE notes (id int)")
    name = await opened.name(opened.eve)
    login = await Logins(opened.database, opened.storage).find(opened.eve)
    # As a process leaves it that is killed before it has made the role, and as a restored database has no roles.
    await opened.tables.drop(opened.eve)
    await execute(place.server, f"UPDATE user_storage SET name = '{name}' WHERE user_id = '{opened.eve}'")
    await opened.run(opened.eve, "CREATE TABLE notes (id int)")
    again = await Logins(opened.database, opened.storage).find(opened.eve)
    assert again is not None
    assert login is not None
    assert (again.name, again.password != login.password) == (name, True)
    await opened.tables.drop(opened.eve)


async def test_a_drop_that_was_interrupted_goes_on(opened: Opened, place: Place) -> None:
    await opened.run(opened.eve, "CREATE TABLE notes (id int)")
    name = await opened.name(opened.eve)
    await execute(place.server, f'DROP SCHEMA "{name}" CASCADE')
    await opened.tables.drop(opened.eve)
    assert (await opened.storage.usage(opened.eve)).name is None
    assert await fetch(place.server, "SELECT 1 FROM pg_roles WHERE rolname = $1", name) == []
    await opened.tables.drop(opened.eve)
    assert await opened.tables.tables(opened.eve) == ()
    assert (await opened.run(opened.eve, "SELECT 1 AS one")).rows == [[1]]


async def test_tables_of_hundreds_are_dropped(opened: Opened, place: Place) -> None:
    await opened.run(opened.eve, "SELECT 1 AS one")
    name = await opened.name(opened.eve)
    await execute(place.server, *(f'CREATE TABLE "{name}".t{number} (a int)' for number in range(120)))
    await opened.tables.drop(opened.eve)
    assert await fetch(place.server, "SELECT 1 FROM pg_namespace WHERE nspname = $1", name) == []


@pytest.fixture(scope="module")
def without_rights(postgres: str) -> Iterator[Place]:
    with owned_database(postgres, "NOCREATEROLE") as made:
        yield made


async def test_without_rights_the_reason_is_told_and_a_pool_of_prepared_roles_is_enough(
    without_rights: Place, clock: ManualClock
) -> None:
    async with open_tables(without_rights.url, clock) as opened:
        assert "symbi database grant-sql" in (opened.tables.problem or "")
        sql = await grants(opened.database, pool=2, strict=True)
        assert "PASSWORD" not in sql
        await execute(without_rights.server, sql)
        await opened.tables.look()
        assert opened.tables.problem is None
        for user in (opened.ada, opened.eve):
            await opened.run(user, "CREATE TABLE notes (id INTEGER PRIMARY KEY, body text)")
            await opened.run(user, "INSERT INTO notes (body) VALUES (?)", [user])
            assert (await opened.run(user, "SELECT body FROM notes")).rows == [[user]]
        with pytest.raises(TablesUnavailable, match="all prepared roles"):
            await opened.run("owner", "SELECT 1 AS one")
        name = await opened.name(opened.eve)
        await opened.tables.drop(opened.eve)
        assert await fetch(without_rights.server, "SELECT rolpassword FROM pg_authid WHERE rolname = $1", name) == [
            (None,)
        ]
        await opened.run("owner", "CREATE TABLE notes (id int)")
        assert await opened.name("owner") == name
        with pytest.raises(StatementError):
            await opened.run("owner", "SELECT body FROM notes")
        await opened.tables.drop("owner")
        await opened.tables.drop(opened.ada)
    pool = f"symbi_{opened.database.id[:8]}_pool_"
    roles = await fetch(without_rights.server, "SELECT rolname FROM pg_roles WHERE starts_with(rolname, $1)", pool)
    assert len(roles) == 2
    await execute(without_rights.server, *(f'DROP ROLE "{role}"' for (role,) in roles))


async def test_a_larger_pool_and_strict_rights_leave_present_users_their_tables(
    without_rights: Place, clock: ManualClock
) -> None:
    async with open_tables(without_rights.url, clock) as opened:
        await execute(without_rights.server, await grants(opened.database, pool=1, strict=False))
        await opened.tables.look()
        await opened.run(opened.eve, "CREATE TABLE notes (id int)")
        await execute(without_rights.server, await grants(opened.database, pool=2, strict=True))
        await opened.tables._connections.forget(await opened.name(opened.eve))
        assert (await opened.run(opened.eve, "SELECT count(*) AS n FROM notes")).rows == [[0]]
        # What is left of a user whose role was given free, such as by an interrupted removal, is no other user's.
        name = await opened.name(opened.eve)
        await opened.tables._logins.forget(opened.eve, name)
        opened.tables._known.clear()
        await opened.run(opened.ada, "CREATE TABLE notes (id int)")
        assert await opened.name(opened.ada) == name
        await opened.run(opened.eve, "CREATE TABLE notes (id int)")
        for user in (opened.eve, opened.ada):
            await opened.tables.drop(user)
        pool = f"symbi_{opened.database.id[:8]}_pool_"
    roles = await fetch(without_rights.server, "SELECT rolname FROM pg_roles WHERE starts_with(rolname, $1)", pool)
    assert len(roles) == 2
    await execute(without_rights.server, *(f'DROP ROLE "{role}"' for (role,) in roles))


async def test_of_a_removed_user_another_daemon_makes_nothing_again(
    place: Place, opened: Opened, clock: ManualClock
) -> None:
    async with open_tables(place.url, clock) as other:
        await other.run(opened.eve, "CREATE TABLE notes (id int)")
        name = await opened.name(opened.eve)
        await opened.database.transact(lambda connection: users.remove(connection, opened.eve, 0))
        await opened.tables._roles.drop(name)  # the row still has its name
        await until(lambda: all(each.raw.is_closed() for each in other.tables._connections._all))
        with pytest.raises(NotFound):
            await other.run(opened.eve, "CREATE TABLE notes (id int)")
        login = await Logins(opened.database, opened.storage).find(opened.eve)
        assert login is not None
        with pytest.raises(NotFound):  # claimed before the user was removed
            await other.tables._roles.make(login, opened.eve, lambda: other.tables._logins.has_login(opened.eve, name))
    assert await fetch(place.server, "SELECT 1 FROM pg_namespace WHERE nspname = $1", name) == []
    assert await fetch(place.server, "SELECT 1 FROM pg_roles WHERE rolname = $1", name) == []


async def test_two_daemons_make_one_role_for_a_user(place: Place, opened: Opened, clock: ManualClock) -> None:
    async with open_tables(place.url, clock) as other:
        await opened.run(opened.eve, "CREATE TABLE notes (id int)")
        await other.run(opened.eve, "INSERT INTO notes VALUES (1)")
        assert (await opened.run(opened.eve, "SELECT count(*) AS n FROM notes")).rows == [[1]]
        # A statement that is prepared here, while the other daemon changes its table.
        assert (await opened.run(opened.eve, "SELECT * FROM notes")).columns == ["id"]
        await other.run(opened.eve, "ALTER TABLE notes ADD COLUMN body text")
        assert (await opened.run(opened.eve, "SELECT * FROM notes")).columns == ["id", "body"]
        await opened.run(opened.eve, "INSERT INTO notes VALUES (2, 'x') RETURNING *")
        await other.run(opened.eve, "ALTER TABLE notes DROP COLUMN body")
        assert (await opened.run(opened.eve, "INSERT INTO notes VALUES (2) RETURNING *")).rows == [[2]]
        await other.tables.drop(opened.eve)
        assert (await opened.run(opened.eve, "SELECT 1 AS one")).rows == [[1]]
        await opened.tables.drop(opened.eve)


async def test_many_users_begin_and_end_at_once(opened: Opened) -> None:
    new = [await users.add(opened.database, f"many{number}{uuid4().hex[:8]}", 0) for number in range(12)]
    await asyncio.gather(*(opened.run(user, "CREATE TABLE notes (id int)") for user in new))
    assert [(await opened.storage.usage(user)).tables for user in new] == [1] * 12
    await asyncio.gather(*(opened.tables.drop(user) for user in new))
    assert [(await opened.storage.usage(user)).name for user in new] == [None] * 12


async def test_a_copy_of_the_database_on_the_same_server_keeps_its_tables(
    place: Place, opened: Opened, postgres: str
) -> None:
    await opened.run(opened.eve, "CREATE TABLE notes (id int)")
    name, copy = await opened.name(opened.eve), f"copy_{uuid4().hex}"
    await execute(url_of(postgres, "postgres"), f"CREATE DATABASE {copy}")
    try:
        await execute(
            url_of(postgres, copy), f'CREATE SCHEMA "{name}"', f'CREATE TABLE "{name}".notes (id int)',
            f'ALTER TABLE "{name}".notes OWNER TO "{name}"',
        )  # fmt: skip
        await opened.tables.drop(opened.eve)
        assert await fetch(url_of(postgres, copy), f'SELECT count(*) FROM "{name}".notes') == [(0,)]
    finally:
        await execute(url_of(postgres, "postgres"), f"DROP DATABASE {copy} WITH (FORCE)", f'DROP ROLE "{name}"')


async def test_a_database_that_is_away_is_one_error(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_self: Database) -> None:
        raise OSError("no route")

    monkeypatch.setattr(Database, "session", refused)
    await opened.tables.look()
    assert opened.tables.problem == "PostgreSQL cannot be reached (try again later)"
