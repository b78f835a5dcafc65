"""The tables of a removed user are dropped, also after a failure; those of a user whose data is kept stay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from runtime.crypto import KeyForgotten
from runtime.daemon.program.app import App
from runtime.daemon.program.user_removal import Removal
from runtime.database.schema import metadata, user_storage
from runtime.database.schema import users as users_table
from runtime.errors import SymbiontError
from runtime.tables.errors import TablesUnavailable
from tests.clocks import ManualClock
from tests.runtime.daemon.keys.test_key_upkeep import SETTLED, add, app_on, call
from tests.runtime.tables.in_memory import TablesInMemory


@pytest.fixture
async def app(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> AsyncIterator[App]:
    async with app_on(tmp_path / "root", database_url, monkeypatch, clock) as opened_app:
        await opened_app.load_nothing()
        opened_app.state.sql = TablesInMemory(opened_app.state.storage)
        yield opened_app


def tables_of(app: App) -> TablesInMemory:
    assert isinstance(app.state.sql, TablesInMemory)
    return app.state.sql


async def with_tables(app: App, name: str, number: int) -> str:
    """Add a user with two tables, and rows in the database; return its id."""
    user_id, sql = await add(app, name, number), tables_of(app)
    for table in ("orders", "trips"):
        await sql.run(user_id, f"CREATE TABLE {table}", (), await app.state.storage.quota(user_id))
    return user_id


async def rows(app: App, user_id: str) -> dict[str, int]:
    """Return the number of a user's rows by table, without the record of a removal."""
    found = {}
    async with app.state.database.read() as connection:
        for table in metadata.sorted_tables:
            if "user_id" in table.c and table is not users_table:
                query = select(func.count()).select_from(table).where(table.c.user_id == user_id)
                found[table.name] = await connection.scalar(query) or 0
    return {name: count for name, count in found.items() if count}


async def test_they_are_dropped_with_everything_else(app: App) -> None:
    ada, bob = await with_tables(app, "ada", 1), await with_tables(app, "bob", 2)
    sql = tables_of(app)
    before = await rows(app, bob)
    answer = await call(app, "user_remove", name="ada")
    assert (answer["problems"], answer["tables"]) == ([], 2)
    assert answer["rows"]["user_storage"] == 1
    assert sql.dropped == [ada]
    assert await rows(app, ada) == {}
    assert [each.name for each in await sql.tables(bob)] == ["orders", "trips"]
    assert await rows(app, bob) == before


async def test_what_cannot_be_dropped_is_tried_again_and_does_not_keep_the_rest(app: App, clock: ManualClock) -> None:
    ada, sql = await with_tables(app, "ada", 1), tables_of(app)
    sql.fails = TablesUnavailable("the database of the tables does not answer")
    answer = await call(app, "user_remove", name="ada")
    assert answer["problems"] == ["tables: the database of the tables does not answer"]
    # Its row names what is to be dropped.
    assert await rows(app, ada) == {"user_storage": 1}
    with pytest.raises(KeyForgotten):
        app.state.database.keys.seal(b"", "user_storage.secret", user_id=ada, row="", version=1)

    removal = Removal(app)
    clock.advance(SETTLED)
    await removal.finish()
    async with app.state.database.read() as connection:
        assert await connection.scalar(select(users_table.c.user_id)) == ada
    sql.fails = None
    await removal.finish()
    assert sql.dropped == [ada]
    assert await rows(app, ada) == {}
    async with app.state.database.read() as connection:
        assert await connection.scalar(select(users_table.c.user_id)) is None


async def test_a_removal_that_was_killed_after_the_drop_is_completed(
    app: App, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: Any, **__: Any) -> None:
        raise SymbiontError("killed here")

    ada, sql = await with_tables(app, "ada", 1), tables_of(app)
    with monkeypatch.context() as patch:
        patch.setattr("runtime.api.admin.user_removal.delete_rows", killed)
        assert (await call(app, "user_remove", name="ada"))["problems"] == ["database: killed here"]
    clock.advance(SETTLED)
    await Removal(app).finish()
    assert sql.dropped == [ada, ada]
    assert await rows(app, ada) == {}


async def test_those_of_a_user_whose_data_is_kept_stay_until_the_data_is_removed(app: App) -> None:
    ada, sql = await with_tables(app, "ada", 1), tables_of(app)
    answer = await call(app, "user_remove", name="ada", keep=True)
    assert (answer["tables"], sql.dropped) == (0, [])
    await Removal(app).finish()
    assert len(await sql.tables(ada)) == 2
    assert (await app.state.storage.usage(ada)).tables == 2
    answer = await call(app, "user_remove", name=f"id:{ada}")
    assert (answer["problems"], answer["tables"], sql.dropped) == ([], 2, [ada])
    assert await rows(app, ada) == {}


async def test_a_daemon_that_cannot_open_them_says_so(app: App) -> None:
    ada = await with_tables(app, "ada", 1)
    await app.state.database.transact(lambda connection: connection.execute(user_storage.update().values(name="u1")))
    tables, app.state.sql = app.state.sql, None
    answer = await call(app, "user_remove", name="ada")
    assert answer["problems"] == ["tables: they cannot be opened here"]
    assert await rows(app, ada) == {"user_storage": 1}
    app.state.sql = tables
    assert (await call(app, "user_remove", name=f"id:{ada}"))["problems"] == []


async def test_they_are_closed_before_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    async with app_on(tmp_path / "root", f"sqlite:///{tmp_path}/s.db", monkeypatch, clock) as opened_app:
        await opened_app.load_nothing()
        sql = opened_app.state.sql = TablesInMemory(opened_app.state.storage)

        async def close() -> None:
            assert await opened_app.state.storage.all() == {}
            sql.closed = True

        monkeypatch.setattr(sql, "close", close)
    assert sql.closed


async def test_a_user_is_shown_with_what_is_stored(app: App) -> None:
    ada = await with_tables(app, "ada", 1)
    changed = await call(app, "user_set", name="ada", tier="pro", storage="1MB", time_zone="Europe/Berlin")
    shown = await call(app, "user_show", name="ada")
    assert changed == shown
    assert (shown["tier"], shown["time_zone"]) == ({"set": "pro", "holds": "pro"}, "Europe/Berlin")
    # The value store has the one byte of the row that `add` made.
    assert shown["storage"] == {
        "set": 1_000_000,
        "most": {"tables": 50, "rows": 100_000, "bytes": 1_000_000, "texts": 10_000_000_000},
        "tables": 2,
        "table_bytes": 8192,
        "kv_bytes": 1,
        "text_bytes": shown["storage"]["text_bytes"],
        "used_percent": 0.8,
        "created_at": shown["storage"]["created_at"],
        "accessed_at": "2026-02-14T10:30:00Z",
    }
    (listed,) = [row for row in (await call(app, "user_list"))["users"] if row["id"] == ada]
    assert {key: listed[key] for key in ("tier", "storage", "time_zone")} == {
        key: shown[key] for key in ("tier", "storage", "time_zone")
    }
