"""Users have ids, which are never reused, and names; their settings; and the deletion of all that is theirs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select

from runtime.crypto import SealedBytes
from runtime.database import bulk
from runtime.database import schema as tables
from runtime.database.connection import Database
from runtime.database.drivers import sqlite
from runtime.database.schema import kv, kv_tags, metadata, task_changes, task_tags, tasks, user_storage
from runtime.errors import UsageError
from runtime.identity import belongings, user_settings, users
from runtime.identity.belongings import delete_rows
from runtime.identity.user_settings import UserSettings, UserSettingsStore
from tests.clocks import ManualClock, until
from tests.conftest import KEY
from tests.runtime.database.keys.sealed_rows import fill


async def test_a_new_user_of_a_name_has_another_id(database: Database) -> None:
    first = await users.add(database, "ada", 0)
    await database.transact(lambda connection: users.remove(connection, first))
    second = await users.add(database, "ada", 0)
    assert first != second
    assert await users.names(database) == {"owner": "owner", second: "ada"}
    assert users.display_name(await users.names(database), first) == f"id:{first}"


async def test_a_name_is_found_exactly_and_an_id_by_its_mark_alone(database: Database) -> None:
    ada = await users.add(database, "ada", 0)
    # A name may be equal to another user's id.
    other = await users.add(database, ada, 0)
    assert await users.find(database, "ada") == ada
    assert await users.find(database, ada) == other
    assert await users.find(database, f"id:{ada}") == ada
    assert await users.find(database, "owner") == "owner"
    for wrong in ("ad", "Ada", "ada ", ""):
        with pytest.raises(UsageError, match="no user is called"):
            await users.find(database, wrong)


async def _token(database: Database, clock: ManualClock, user_id: str) -> tuple[str, str]:
    from runtime.identity.tokens import make_token, token_hash

    made = make_token()
    row = {"id": "t", "user_id": user_id, "label": "", "hash": token_hash(made), "scopes": "read", "created_at": 0}
    async with database.write() as connection:
        await connection.execute(insert(tables.tokens).values(**row))
    return "t", made


async def test_every_row_of_a_user_goes_and_nobody_elses(database: Database) -> None:
    everything = [table for table in tables.metadata.sorted_tables if "user_id" in table.c and table.name != "users"]

    def fill(connection: Connection) -> None:
        for number, user in enumerate(("ada", "bob")):
            for table in everything:
                row = {column.name: _value(column, number) for column in table.c if not column.nullable}
                connection.execute(insert(table).values(**row | {"user_id": user}))

    await database.transact(fill)
    counts, running = await belongings.delete_rows(database, "ada")
    assert counts == {table.name: 1 for table in everything}
    assert not running
    async with database.read() as connection:
        for table in everything:
            found = await connection.scalars(select(table.c.user_id))
            assert found.all() == ["bob"], table.name
    assert await belongings.delete_rows(database, "ada") == ({}, False)


async def test_what_stood_in_the_clear_of_a_user_is_gone_from_the_log_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "EMPTY_SECONDS", 0.05)
    path = tmp_path / "symbiont.db"
    log = Path(f"{path}-wal")
    database = await Database.open(path, KEY)
    try:
        await until(lambda: log.stat().st_size == 0)  # what the opening wrote
        row = {column.name: _value(column, 1) for column in tables.webhooks.c if not column.nullable}
        added = insert(tables.webhooks).values(**row | {"user_id": "ada", "title": "okapiquux"})
        await database.transact(lambda connection: connection.execute(added))
        assert b"okapiquux" in log.read_bytes()
        await belongings.delete_rows(database, "ada")
        await until(lambda: b"okapiquux" not in log.read_bytes() + path.read_bytes())
    finally:
        await database.close()


def _value(column: Any, number: int) -> Any:
    kind = column.type.python_type
    if column.foreign_keys:
        (referenced,) = column.foreign_keys
        return _value(referenced.column, number)
    if kind is bytes:
        return SealedBytes(b"x%d" % number)
    return {str: f"{column.name[:4]}{number}", int: number, bool: True, object: SealedBytes(b"x")}[kind]


async def test_what_an_agent_works_on_is_left_to_end(database: Database) -> None:
    def fill(connection: Connection) -> None:
        for number, state in enumerate(("running", "queued")):
            delivery = {column.name: _value(column, number) for column in tables.deliveries.c if not column.nullable}
            connection.execute(insert(tables.deliveries).values(**delivery | {"user_id": "ada", "state": state}))
            run = {"id": f"run{number}", "user_id": "ada", "delivery_id": f"id{number}", "agent": "a", "state": state}
            connection.execute(insert(tables.runs).values(**run, attempt=1, started_at=0))

        for number, state in enumerate(("running", "queued", "waiting")):
            message = {column.name: _value(column, number) for column in tables.inputs.c if not column.nullable}
            connection.execute(insert(tables.inputs).values(**message | {"user_id": "ada", "state": state}))
            run = {"id": f"id{number}", "user_id": "ada", "trigger": "message", "agent": "a", "state": state}
            connection.execute(insert(tables.runs).values(**run, attempt=1, started_at=0))

    await database.transact(fill)
    counts, running = await belongings.delete_rows(database, "ada")
    assert (counts, running) == ({"deliveries": 1, "inputs": 2, "runs": 3}, True)
    for table in tables.TURN_TABLES.values():
        ended = table.update().values(state="done")
        async with database.write() as connection:
            await connection.execute(ended)
        counts, running = await belongings.delete_rows(database, "ada")
        assert (counts, running) == ({table.name: 1, "runs": 1}, table is tables.deliveries)


async def test_keys_are_needed_of_users_and_of_removed_ones_of_whom_something_is_kept(database: Database) -> None:
    ada, bob, carl = [await users.add(database, name, 0) for name in ("ada", "bob", "carl")]

    def change(connection: Connection) -> dict[str, str | None]:
        users.remove(connection, bob, 5)
        users.remove(connection, carl)
        return users.removals(connection, {ada, bob, carl, "nobody"})

    assert await database.transact(change) == {bob: None, carl: "owner", "nobody": None}


ROWS = {1: "ada", 2: "ada", 3: "ada", 4: "ada", 5: "ada", 6: "bob", 7: "bob"}
STORED = (kv, kv_tags, task_changes, task_tags, tasks, user_storage)


def _fill(connection: Connection, database: Database) -> None:
    """Insert rows into every table of what users store; each key and task has two tags."""
    fill(connection, database.keys, ROWS, tables=(kv, tasks, task_changes, user_storage))
    for number, user in ROWS.items():
        codes = [(user, f"{number} {each}".encode(), f"id {number}") for each in "ab"]
        bulk.insert(connection, kv_tags, ("user_id", "code", "kv_id"), codes)
        tags = [(user, each, f"id {number}", "pending") for each in "ab"]
        bulk.insert(connection, task_tags, ("user_id", "tag", "task_id", "status"), tags)


async def _count(database: Database, user: str) -> dict[str, int]:
    async with database.read() as connection:
        return {
            table.name: await connection.scalar(select(func.count()).select_from(table).where(table.c.user_id == user))
            or 0
            for table in STORED
        }


async def test_what_users_store_is_deleted_in_parts_and_that_of_others_stays(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(belongings, "CHUNK", 2)
    await database.transact(lambda connection: _fill(connection, database))
    before = await _count(database, "bob")
    assert (before["kv"], before["kv_tags"], before["user_storage"]) == (2, 4, 1)
    counts, running = await delete_rows(database, "ada")
    assert counts == {
        "kv": 5, "kv_tags": 10, "task_changes": 5, "task_tags": 10, "tasks": 5, "user_storage": 1
    }  # fmt: skip
    assert not running
    assert await _count(database, "ada") == dict.fromkeys(before, 0)
    assert await _count(database, "bob") == before


async def test_a_table_that_is_to_be_kept_keeps_its_rows(database: Database) -> None:
    await database.transact(lambda connection: _fill(connection, database))
    counts, _ = await delete_rows(database, "ada", kept=(user_storage,))
    assert "user_storage" not in counts
    assert (await _count(database, "ada"))["user_storage"] == 1
    assert await delete_rows(database, "ada") == ({"user_storage": 1}, False)


def test_every_table_with_rows_of_users_is_deleted_from() -> None:
    of_users = {table.name for table in metadata.sorted_tables if "user_id" in table.c}
    assert {table.name for table in belongings._ORDER} == of_users - {"users"}


async def test_a_reading_that_a_change_overtakes_is_not_kept(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, read = UserSettingsStore(database, clock), user_settings.read_settings
    was_read, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(database: Database, user_id: str) -> UserSettings:
        found = await read(database, user_id)
        was_read.set()
        await goes_on.wait()
        return found

    await store.change("owner", {"tokens_per_day": 1})
    monkeypatch.setattr(user_settings, "read_settings", slow)
    reading = asyncio.create_task(store.of("owner"))
    await was_read.wait()
    await store.change("owner", {"tokens_per_day": 2})
    goes_on.set()
    assert (await reading).tokens_per_day == 1
    assert (await store.of("owner")).tokens_per_day == 2
