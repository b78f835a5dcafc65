"""Statements for many rows, and columns that accept only sealed values."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, insert, select

from runtime.crypto import MasterKey, Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import bodies, meta, replay_keys, secrets
from runtime.database.sealed import Seal

KEY = ("user_id", "webhook", "mac")


async def test_a_table_is_kept_with_bulk_statements(database: Database) -> None:
    rows = [(f"name {number}", str(number)) for number in range(301)]
    odd = [row for row in rows if int(row[1]) % 2]
    transact = database.transact
    assert await transact(lambda c: bulk.insert(c, meta, ("name", "value"), rows)) == 301
    assert await transact(lambda c: bulk.insert(c, meta, ("name", "value"), rows[:7], ignore=True)) == 0
    changed = [(name, f"changed {value}") for name, value in odd]
    assert await transact(lambda c: bulk.update(c, meta, ("name",), ("value",), [*changed, ("nobody", "")])) == 150
    assert await transact(lambda c: bulk.delete(c, meta, "name", [name for name, _ in rows[:100]])) == 100
    found = await transact(lambda c: bulk.find(c, meta, ("name",), ("value",), [(name,) for name, _ in rows]))
    assert {tuple(row) for row in found} == {(n, f"changed {v}" if int(v) % 2 else v) for n, v in rows[100:]}


async def test_rows_are_found_by_several_keys_of_any_type(database: Database) -> None:
    rows = [("owner", "a", bytes([number]), number, str(number)) for number in range(5)]
    columns = (*KEY, "expires_at", "delivery_id")
    await database.transact(lambda c: bulk.insert(c, replay_keys, columns, rows))
    wanted = [("owner", "a", b"\x03"), ("owner", "b", b"\x03"), ("owner", "a", b"\x09")]
    found = await database.transact(lambda c: bulk.find(c, replay_keys, KEY, ("expires_at",), wanted, lock="UPDATE"))
    assert [tuple(row) for row in found] == [("owner", "a", b"\x03", 3)]


async def test_rows_are_found_by_the_index_of_a_table_that_has_grown(postgres_url: str, master_key: MasterKey) -> None:
    def read_whole(connection: Connection) -> int:
        before = bulk.find(connection, meta, ("name",), ("value",), [("name 1",)] * 64)
        bulk.insert(connection, meta, ("name", "value"), [(f"name {number}", "") for number in range(200)])
        for lock in ("", "UPDATE"):
            assert len(bulk.find(connection, meta, ("name",), ("value",), [("name 1",)] * 64, lock=lock)) == 64
        assert before == []
        count = "SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'meta'"
        return int(connection.exec_driver_sql(count).scalar_one())

    database = await Database.open(postgres_url, master_key)
    try:
        assert await database.transact(read_whole) == 0
    finally:
        await database.close()


async def test_no_rows_are_no_statement(database: Database) -> None:
    def nothing(connection: object) -> list[object]:
        return [
            bulk.insert(connection, meta, ("name", "value"), []),  # type: ignore[arg-type]
            bulk.update(connection, meta, ("name",), ("value",), []),  # type: ignore[arg-type]
            bulk.delete(connection, meta, "name", []),  # type: ignore[arg-type]
            bulk.find(connection, meta, ("name",), ("value",), []),  # type: ignore[arg-type]
        ]

    assert await database.transact(nothing) == [0, 0, 0, []]


async def test_a_sealed_value_comes_back_from_its_row(database: Database) -> None:
    seal = Seal(database.keys, secrets.c.value)
    async with database.write() as connection:
        value = seal.close(b"plain", row="github", version=0)
        await connection.execute(insert(secrets).values(name="github", value=value, created_at=1))
    async with database.read() as connection:
        stored = (await connection.execute(select(secrets.c.value))).scalar_one()
    assert b"plain" not in stored
    assert seal.open(stored, row="github", version=0) == b"plain"


async def test_a_sealed_value_moved_to_another_row_does_not_open(database: Database) -> None:
    seal = Seal(database.keys, secrets.c.value)
    with pytest.raises(Unsealable, match="changed or moved"):
        seal.open(seal.close(b"plain", row="github", version=0), row="stripe", version=0)


async def test_an_old_value_beside_a_newer_version_does_not_open(database: Database) -> None:
    seal = Seal(database.keys, secrets.c.value)
    with pytest.raises(Unsealable, match="an older value"):
        seal.open(seal.close(b"plain", row="github", version=1), row="github", version=2)


async def test_a_column_with_versions_is_not_sealed_without_one(database: Database) -> None:
    with pytest.raises(TypeError, match="has a version"):
        Seal(database.keys, secrets.c.value).close(b"plain", row="github")
    with pytest.raises(TypeError, match="has no version"):
        Seal(database.keys, bodies.c.body).close(b"plain", row="1", version=1)


async def test_unsealed_bytes_are_refused_at_bind(database: Database) -> None:
    async with database.write() as connection:
        with pytest.raises(Exception, match=r"accepts only results of Seal\.close"):
            await connection.execute(insert(secrets).values(name="github", value=b"plain", created_at=1))


async def test_unsealed_bytes_are_refused_by_bulk_statements_too(database: Database) -> None:
    rows = [("id", "owner", b"plain")]
    with pytest.raises(TypeError, match=r"accepts only results of Seal\.close"):
        await database.transact(lambda c: bulk.insert(c, bodies, ("delivery_id", "user_id", "body"), rows))


async def test_only_sealed_columns_can_be_sealed(database: Database) -> None:
    with pytest.raises(TypeError, match="not a sealed column"):
        Seal(database.keys, meta.c.value)
