"""The rows of a removed user are deleted in small parts, in an order that foreign keys allow."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, func, select

from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import kv, kv_tags, metadata, task_changes, task_tags, tasks, user_storage
from runtime.identity import belongings
from runtime.identity.belongings import delete_rows
from tests.runtime.database.keys.sealed_rows import fill

ROWS = {1: "ada", 2: "ada", 3: "ada", 4: "ada", 5: "ada", 6: "bob", 7: "bob"}
TABLES = (kv, kv_tags, task_changes, task_tags, tasks, user_storage)


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
            for table in TABLES
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
