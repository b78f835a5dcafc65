"""A full disk, a removed user, a rotated key and two daemons at once leave no half of a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import func, select

from runtime.clock import milliseconds
from runtime.daemon.program.app import App
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import task_changes, task_creations, task_parts, task_tags, tasks
from runtime.errors import RateLimited
from runtime.identity.caller import Caller
from runtime.tasks.store import TaskStore
from runtime.tasks.task import Actor, Task, TaskFilter
from runtime.tools import TOOLS
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.daemon.keys.test_key_upkeep import app_on, call

USER = Actor("user")
TABLES = (tasks, task_tags, task_changes, task_parts, task_creations)


@pytest.fixture
async def app(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> AsyncIterator[App]:
    monkeypatch.setenv("EMBEDDING_PROVIDER", "hashing")
    async with app_on(tmp_path / "root", database_url, monkeypatch, clock) as opened_app:
        await opened_app.load_nothing()
        yield opened_app


async def found(app: App, user_id: str, query: str) -> list[str]:
    """Return the titles that a search of a user finds."""
    async with app.pinned():
        context = app.contexts.tool(Caller(user_id, frozenset({"write"})))
        answer = (await TOOLS["task_search"].call(context, {"query": query})).model_dump()
    return [task["title"] for task in answer["tasks"]]


async def entries(app: App, user_id: str) -> int:
    """Return how many entries of a user the index has."""
    assert app.generation.tasks is not None
    return (await app.generation.tasks.index_stats(user_id)).entries


async def counted(database: Database, user_id: str) -> dict[str, int]:
    async with database.read() as connection:
        return {
            table.name: await connection.scalar(
                select(func.count()).select_from(table).where(table.c.user_id == user_id)
            )
            or 0
            for table in TABLES
        }


async def test_on_a_full_disk_nothing_is_kept_by_half(tmp_path: Path, clock: ManualClock) -> None:
    database = await Database.open(with_keys(tmp_path / "symbiont.db", KEY), KEY)
    store = TaskStore(database, clock, per_hour=1000)
    await database.transact(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 400"))
    made: list[Task] = []
    with suppress(Unavailable):
        while len(made) < 400:
            made.append(await store.create("owner", USER, title="x", description="okapi " * 1500, tags=["a", "b"]))
    assert 0 < len(made) < 400
    page = await store.page("owner", TaskFilter(None, ("a", "b")), limit=100)
    assert (page.total, page.tasks) == (len(made), made[: -min(len(made), 100) - 1 : -1])
    async with database.read() as connection:
        for table, column in ((task_parts, task_parts.c.count), (task_creations, task_creations.c.count)):
            assert await connection.scalar(select(func.sum(column)).select_from(table)) == len(made)
    rows = await counted(database, "owner")
    assert (rows["tasks"], rows["task_changes"], rows["task_tags"]) == (len(made), len(made), 2 * len(made))
    await database.close()


async def test_two_daemons_together_create_as_many_as_are_allowed(database_url: str, clock: ManualClock) -> None:
    databases = [await Database.open(database_url, KEY) for _ in range(2)]
    stores = [TaskStore(database, clock, per_hour=5) for database in databases]
    creations = (store.create("owner", USER, title="x") for _ in range(6) for store in stores)
    answers = await asyncio.gather(*creations, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert [type(error) for error in refused] == [RateLimited] * 7
    assert (await stores[0].page("owner", limit=100)).total == 5
    for database in databases:
        await database.close()


async def test_nothing_of_a_removed_user_is_left_in_tables_and_index(app: App) -> None:
    users = {name: str((await call(app, "user_add", name=name))["id"]) for name in ("ada", "bob")}
    for name, user_id in users.items():
        await app.state.tasks.create(user_id, USER, title=f"okapi of {name}", tags=["a"])
        assert await found(app, user_id, "okapi") == [f"okapi of {name}"]
    answer = await call(app, "user_remove", name="ada")
    assert (answer["problems"], answer["rows"]["tasks"]) == ([], 1)
    assert set((await counted(app.state.database, users["ada"])).values()) == {0}
    assert await entries(app, users["ada"]) == 0
    assert await found(app, users["bob"], "okapi") == ["okapi of bob"]


async def test_tasks_that_are_kept_of_a_removed_user_are_deleted_with_the_rest_later(app: App) -> None:
    ada = str((await call(app, "user_add", name="ada"))["id"])
    await app.state.tasks.create(ada, USER, title="okapi")
    assert await found(app, ada, "okapi") == ["okapi"]
    await call(app, "user_remove", name="ada", keep=True)
    assert (await counted(app.state.database, ada))["tasks"] == 1
    # The namesake has none of them.
    again = str((await call(app, "user_add", name="ada"))["id"])
    assert (await app.state.tasks.page(again, limit=1)).total == 0
    assert await found(app, again, "okapi") == []
    assert (await call(app, "user_remove", name=f"id:{ada}"))["problems"] == []
    assert set((await counted(app.state.database, ada)).values()) == {0}
    assert await entries(app, ada) == 0


async def test_tasks_are_read_and_found_after_their_key_was_rotated(app: App, clock: ManualClock) -> None:
    task = await app.state.tasks.create("owner", USER, title="okapi", tags=["a"])
    await app.state.tasks.update("owner", task.id, {"description": "It likes figs."}, USER)
    assert await found(app, "owner", "figs") == ["okapi"]
    await asyncio.to_thread(app.state.database.keys.rotate, ["owner"], milliseconds(clock))
    await app.state.tasks.create("owner", USER, title="another okapi")
    assert sorted(await found(app, "owner", "okapi")) == ["another okapi", "okapi"]
    assert [change.version for change in await app.state.tasks.history("owner", task.id)] == [2, 1]


async def test_after_a_reload_changes_are_found(app: App) -> None:
    await app.state.tasks.create("owner", USER, title="okapi")
    assert await found(app, "owner", "okapi") == ["okapi"]
    await app.load_nothing()
    task = await app.state.tasks.create("owner", USER, title="another okapi")
    assert sorted(await found(app, "owner", "okapi")) == ["another okapi", "okapi"]
    await app.state.tasks.delete("owner", task.id, USER)
    assert await found(app, "owner", "okapi") == ["okapi"]
