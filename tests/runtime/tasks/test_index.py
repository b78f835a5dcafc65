"""Tasks are found by their words and their meaning, by their user alone, and as they are now."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.clock import milliseconds
from runtime.database.connection import Database
from runtime.identity import users
from runtime.identity.belongings import delete_rows
from runtime.memory.errors import Unsupported
from runtime.search.embedding import open_embedding
from runtime.search.errors import IndexFailed
from runtime.tasks import writing
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.lanes import LONG
from tests.runtime.memory.texts import fact
from tests.runtime.tasks.paraphrases import NONSENSE, PARAPHRASES
from tests.runtime.tasks.searching import TaskSearch, hashing, searching


@pytest.fixture
async def search(database: Database, tmp_path: Path, clock: ManualClock) -> AsyncIterator[TaskSearch]:
    async with searching(database, tmp_path / "index", clock, hashing()) as opened:
        yield opened


async def test_a_task_is_found_by_words_of_its_title_and_description(search: TaskSearch) -> None:
    await search.call("task_create", title="Feed the okapi", description="It likes figs.")
    await search.call("task_create", title="Water the fern")
    assert await search.find("okapi") == ["Feed the okapi"]
    assert await search.find("figs") == ["Feed the okapi"]


async def test_a_long_task_is_found_once(search: TaskSearch) -> None:
    await search.call("task_create", title="Feed the okapi", description="The okapi waits here. " * 400)
    found = await search.call("task_search", query="okapi waits")
    assert (len(found["tasks"]), found["total"]) == (1, 1)


async def test_without_an_embedding_it_is_found_by_words(
    database: Database, tmp_path: Path, clock: ManualClock
) -> None:
    async with searching(database, tmp_path / "index", clock) as search:
        await search.call("task_create", title="Feed the okapi")
        assert await search.find("okapi") == ["Feed the okapi"]
        found = await search.call("task_search", query="okapi")
        assert found["notes"] == ["searched by keyword only"]


async def test_a_search_is_among_the_status_and_all_tags(search: TaskSearch) -> None:
    for number in range(4):
        tags = ["a", *(["b"] if number % 2 else [])]
        made = await search.call("task_create", title=f"okapi {number}", tags=tags)
        if number == 3:
            await search.call("task_complete", task_id=made["task_id"])
    assert sorted(await search.find("okapi", tags=["a", "b"])) == ["okapi 1", "okapi 3"]
    assert await search.find("okapi", tags=["b"], status="completed") == ["okapi 3"]
    assert await search.find("okapi", status="cancelled") == []
    assert len(await search.find("okapi", limit=2)) == 2


async def test_changes_and_deletions_are_found_at_once(search: TaskSearch) -> None:
    made = await search.call("task_create", title="Feed the okapi", tags=["a"])
    assert await search.find("okapi") == ["Feed the okapi"]
    await search.call("task_update", task_id=made["task_id"], title="Water the fern", tags=["b"])
    assert await search.find("okapi") == []
    assert await search.find("fern", tags=["b"]) == ["Water the fern"]
    await search.call("task_bulk_update", task_ids=[made["task_id"]], status="completed")
    assert await search.find("fern", status="pending") == []
    await search.call("task_delete", task_id=made["task_id"])
    assert await search.find("fern") == []
    await search.call("task_create", title="Another fern")
    assert await search.find("fern") == ["Another fern"]


async def test_no_search_finds_a_task_of_another_user(
    database: Database, search: TaskSearch, clock: ManualClock
) -> None:
    ada = await users.add(database, "ada", milliseconds(clock))
    await search.call("task_create", ada, title="okapi of Ada", tags=["a"])
    await search.call("task_create", title="okapi of mine")
    assert await search.find("okapi") == ["okapi of mine"]
    assert await search.find("okapi", tags=["a"]) == []
    assert await search.find("okapi", ada) == ["okapi of Ada"]


async def test_tasks_of_many_parts_are_found(search: TaskSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PART", 3)
    made = [await search.call("task_create", title=f"word{number}word") for number in range(10)]
    for number in (0, 4, 9):
        assert await search.find(f"word{number}word") == [f"word{number}word"]
    assert len(await search.memory.store.parts("owner")) == 4
    for task in made[3:6]:
        await search.call("task_delete", task_id=task["task_id"])
    assert len(await search.memory.store.parts("owner")) == 3
    assert await search.find("word4word") == []


async def test_the_index_has_nothing_readable(search: TaskSearch, tmp_path: Path) -> None:
    await search.call("task_create", title="Feed the zanzibarokapi", tags=["zanzibartag"])
    assert await search.find("zanzibarokapi")
    await search.memory.close()
    stored = b"".join(path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file()).lower()
    assert stored
    assert b"zanzibar" not in stored


async def test_another_daemon_finds_what_this_one_changed(
    database_url: str, search: TaskSearch, tmp_path: Path, clock: ManualClock
) -> None:
    other = await Database.open(database_url, KEY)
    try:
        async with searching(other, tmp_path / "other", clock) as elsewhere:
            made = await search.call("task_create", title="Feed the okapi")
            assert await elsewhere.find("okapi") == ["Feed the okapi"]
            await elsewhere.call("task_complete", task_id=made["task_id"])
            assert await search.find("okapi", status="completed") == ["Feed the okapi"]
            await search.call("task_delete", task_id=made["task_id"])
            assert await elsewhere.find("okapi") == []
    finally:
        await other.close()


async def test_a_deleted_index_is_built_again(database: Database, tmp_path: Path, clock: ManualClock) -> None:
    async with searching(database, tmp_path / "index", clock) as search:
        await search.call("task_create", title="Feed the okapi")
        assert await search.find("okapi")
    shutil.rmtree(tmp_path / "index")
    async with searching(database, tmp_path / "index", clock) as search:
        assert await search.find("okapi") == ["Feed the okapi"]


async def test_nothing_of_a_removed_user_is_in_the_index(
    database: Database, search: TaskSearch, clock: ManualClock
) -> None:
    ada = await users.add(database, "ada", milliseconds(clock))
    await search.call("task_create", ada, title="okapi of Ada")
    assert await search.find("okapi", ada)
    await database.transact(lambda connection: users.remove(connection, ada, milliseconds(clock)))
    counts, _ = await delete_rows(database, ada)
    assert {name for name in counts if name.startswith("task")} == {"tasks", "task_changes", "task_parts"}
    await search.memory.forget_user(ada, ada)
    assert (await search.memory.index_stats(ada)).entries == 0


async def test_a_failing_index_is_told_without_its_place(search: TaskSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> object:
        raise IndexFailed("the index /srv/symbiont/tasks.db could not be read or written: disk is full")

    monkeypatch.setattr(search.memory.indexer.index, "put", full)
    await search.call("task_create", title="Feed the okapi")
    found = await search.call("task_search", query="okapi")
    assert found["notes"] == ["the index cannot be read or written, so not everything is searched"]


async def test_nothing_is_appended_to_tasks(search: TaskSearch) -> None:
    with pytest.raises(Unsupported):
        await search.memory.store.append([fact("okapi")])


@LONG
async def test_tasks_are_found_in_other_words_and_nonsense_finds_few(
    database: Database, tmp_path: Path, clock: ManualClock
) -> None:
    async with searching(database, tmp_path / "meaning", clock, await open_embedding(None, {})) as search:
        for title in PARAPHRASES:
            await search.call("task_create", title=title)
        answers = {title: await search.find(query) for title, query in PARAPHRASES.items()}
        found = [title for title, titles in answers.items() if title in titles]
        assert len(found) >= 40
        assert sum(map(len, answers.values())) <= 2 * len(PARAPHRASES)
        assert sum([bool(await search.find(query)) for query in NONSENSE]) <= 6
