"""The index over a store that knows what changed is as complete as if all parts were compared each time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from runtime.database.connection import Database
from runtime.memory.indexing.background import keep_index
from runtime.memory.indexing.changed_parts import COMPLETE_SECONDS
from runtime.memory.recall import message_parts
from runtime.memory.store_types import Part
from runtime.threads.messages import Messages
from runtime.threads.thread import Thread
from tests.clocks import ManualClock, until
from tests.runtime.memory.recall.test_store import Recall, recalling
from tests.runtime.search.index.embedded.test_faults import scribbled
from tests.runtime.threads.thread_runs import all_ended, said, statements


@pytest.fixture
async def recall(database: Database, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Recall]:
    async with recalling(database, tmp_path / "index", clock) as opened:
        yield opened


@pytest.fixture
async def thread(recall: Recall) -> Thread:
    made = await recall.threads.conversation("owner", "helper")
    await recall.messages.append(made, [said("the okapi sleeps")])
    await all_ended(recall.database)
    await recall.memory.sync()
    return made


async def change_unnoticed(recall: Recall, thread: Thread) -> None:
    """Delete all messages of a thread, as a program that knows no log of changes."""
    changes = ("DELETE FROM messages WHERE thread_id = :id", "UPDATE threads SET deletions = length WHERE id = :id")
    await recall.database.transact(
        lambda connection: [connection.execute(text(each), {"id": thread.id}) for each in changes]
    )


async def test_without_a_change_nothing_is_compared(recall: Recall, thread: Thread) -> None:
    with statements() as recorded:
        report = await recall.memory.sync()
        of_agent = await recall.memory.sync("helper")
    assert (report.parts, of_agent.parts) == (0, 0)
    assert [statement for statement, _ in recorded if "FROM threads" in statement] == []


async def test_what_changed_for_one_agent_is_still_read_for_the_other(recall: Recall, thread: Thread) -> None:
    other = await recall.threads.main("owner", "planner")
    await recall.messages.append(thread, [said("another okapi")])
    await recall.messages.append(other, [said("the okapi of the planner")])
    assert (await recall.memory.sync("planner")).read == 1
    assert (await recall.memory.sync("helper")).read == 1
    assert await recall.texts("okapi") == ["another okapi", "the okapi of the planner", "the okapi sleeps"]


async def test_a_part_that_cannot_be_read_is_told_until_it_changes(recall: Recall, thread: Thread) -> None:
    damage = text("UPDATE messages SET content = :content WHERE thread_id = :id")
    await recall.messages.append(thread, [said("another okapi")])
    await recall.database.transact(
        lambda connection: connection.execute(damage, {"content": b"damaged", "id": thread.id})
    )
    for _ in range(2):
        [problem] = (await recall.memory.sync()).problems
        assert "cannot be decrypted" in problem
    for position in (0, 1):
        await recall.messages.delete(thread, position)
    assert (await recall.memory.sync()).problems == ()


async def test_a_part_that_cannot_be_read_at_first_is_told_until_it_changes(
    database: Database, tmp_path: Path, clock: ManualClock, recall: Recall, thread: Thread
) -> None:
    damage = text("UPDATE messages SET content = :content")
    await database.transact(lambda connection: connection.execute(damage, {"content": b"damaged"}))
    async with recalling(database, tmp_path / "other", clock) as opened:
        for _ in range(2):
            assert len((await opened.memory.sync()).problems) == 1
        await opened.messages.delete(thread, 0)
        assert (await opened.memory.sync()).problems == ()


async def test_an_index_that_was_damaged_is_filled_again(recall: Recall, thread: Thread, tmp_path: Path) -> None:
    assert await recall.texts("okapi") == ["the okapi sleeps"]
    [file] = (tmp_path / "index").glob("recall-*.db")
    scribbled(file)
    await recall.find("okapi")
    assert await recall.texts("okapi") == ["the okapi sleeps"]


async def test_an_index_that_is_emptied_is_built_again(recall: Recall, thread: Thread) -> None:
    await recall.memory.reindex("helper")
    assert await recall.texts("okapi") == ["the okapi sleeps"]
    await recall.memory.reindex()
    assert await recall.texts("okapi") == ["the okapi sleeps"]


async def test_after_very_many_changes_all_parts_are_compared(
    recall: Recall, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_parts, "MOST_CHANGED", 2)
    for _ in range(4):
        await recall.messages.append(await recall.threads.conversation("owner", "helper"), [said("an okapi")])
    assert len(await recall.texts("okapi", agent="helper")) == 5
    assert len(await recall.texts("okapi")) == 5
    await all_ended(recall.database)
    await recall.memory.sync()
    await recall.messages.append(thread, [said("the last okapi")])
    assert (await recall.memory.sync()).parts == 1
    assert len(await recall.texts("okapi")) == 6


async def test_the_background_notices_what_another_program_changed(
    recall: Recall, thread: Thread, clock: ManualClock
) -> None:
    await change_unnoticed(recall, thread)
    assert (await recall.memory.sync()).removed == 0
    assert not recall.memory.indexer.changed.overdue
    clock.advance(COMPLETE_SECONDS + 1)
    assert recall.memory.indexer.changed.overdue
    task = asyncio.create_task(keep_index(recall.memory.indexer, None, clock))
    try:
        await until(lambda: not recall.memory.indexer.changed.overdue)
    finally:
        task.cancel()
    assert (await recall.memory.index_stats()).entries == 0


async def test_all_parts_are_compared_once_for_searches_that_wait_for_it(
    recall: Recall, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = await recall.threads.conversation("owner", "helper")
    await recall.messages.append(thread, [said("the okapi sleeps")])
    listed: list[str | None] = []
    parts = recall.store.parts

    async def counted(agent_id: str | None = None) -> tuple[Part, ...]:
        listed.append(agent_id)
        return await parts(agent_id)

    monkeypatch.setattr(recall.store, "parts", counted)
    reports = await asyncio.gather(*(recall.memory.sync() for _ in range(5)))
    assert sum(report.read for report in reports) == 1
    assert listed.count(None) == 1


async def test_the_background_reads_what_other_daemons_changed_with_its_own_changes(
    recall: Recall, thread: Thread, clock: ManualClock
) -> None:
    elsewhere = Messages(recall.database, clock)
    other = await recall.threads.main("owner", "planner")
    task = asyncio.create_task(keep_index(recall.memory.indexer, None, clock))
    try:
        await until(lambda: clock.sleepers == 1)
        await elsewhere.append(other, [said("the okapi of the planner")])
        await recall.messages.append(thread, [said("another okapi")])
        await eventually(recall, 3)
    finally:
        task.cancel()


async def eventually(recall: Recall, entries: int) -> None:
    """Wait until the index has this many entries, without a comparison of its own."""
    async with asyncio.timeout(60):
        while (await recall.memory.index_stats()).entries != entries:
            await asyncio.sleep(0.01)
