"""Statements for many rows have the same effect as one statement per row, on both databases."""

from __future__ import annotations

from sqlalchemy import Connection

from runtime.crypto import MasterKey
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import meta, replay_keys

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
