"""A collection memory beyond the contract of all stores: what is stored in clear, counted, checked and followed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, select, update
from sqlalchemy.dialects import sqlite

from runtime.crypto import MasterKey, SealedBytes
from runtime.database.connection import Database
from runtime.database.errors import Collision, Unavailable
from runtime.database.schema import item_parts, items
from runtime.errors import UsageError
from runtime.memory import open_store
from runtime.memory.collection.errors import StoreAway
from runtime.memory.collection.reader import CollectionReader
from runtime.memory.collection.store import CollectionStore
from runtime.memory.errors import FsyncFailed, StoreError
from runtime.memory.item import Item, Provenance
from runtime.memory.store_types import Append, Scan
from tests.clocks import ManualClock
from tests.databases import migrated
from tests.runtime.memory.collection.conftest import declared
from tests.runtime.memory.texts import WHEN, fact, item

UNSAID = ("walnut", "hazel", "chestnut", "almond")


async def everything(store: CollectionStore) -> list[Item]:
    return [one async for one in store.scan()]


async def test_a_copy_of_the_database_gives_no_text(tmp_path: Path, master_key: MasterKey) -> None:
    database = await Database.open(migrated(tmp_path / "symbiont.db"), master_key)
    store = CollectionStore(declared().name, database)
    about = Provenance(author="hazel", sources=("chestnut",))
    (first, _) = await store.append(
        [fact("The server is walnut", provenance=about), fact(source_memory_ids=("almond",))]
    )
    await store.edit(first.memory_id, "The server is still walnut")
    await store.upsert([fact("The server is still walnut", tags=("in the clear",))])
    await store.close()
    await database.close()
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not [word for word in UNSAID if word.encode() in held]
    assert b"in the clear" in held


async def test_a_collection_without_a_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="database"):
        await open_store(declared(), tmp_path)


async def test_a_text_that_was_moved_to_another_row_is_not_taken_for_its_own(
    store: CollectionStore, database: Database
) -> None:
    one, two = await store.append([fact("One"), fact("Two")])
    async with database.write() as connection:
        content = (await connection.execute(select(items.c.content).where(items.c.id == one.memory_id))).scalar_one()
        moved = "UPDATE items SET content = (SELECT content FROM items WHERE id = '{}') WHERE id = '{}'"
        await connection.exec_driver_sql(moved.format(one.memory_id, two.memory_id))
    assert content
    (part,) = await store.parts()
    for reading in (everything(store), store.read(part)):
        with pytest.raises(StoreError, match=two.memory_id):
            await reading
    checked, problems = await store.verify()
    assert checked == 1
    assert [two.memory_id in problem.message for problem in problems] == [True]


async def test_an_item_that_cannot_be_opened_fails_who_changes_it_and_nobody_who_writes_meanwhile(
    store: CollectionStore, database: Database
) -> None:
    whole, broken = await store.append([fact("One"), fact("Two")])
    async with database.write() as connection:
        await connection.execute(update(items).where(items.c.id == broken.memory_id).values(content=SealedBytes(b"?")))
    tagged = [fact("One", tags=("t",)), fact("Two", tags=("t",)), fact("Three")]
    works = [store.append([fact("Before")]), store.edit(broken.memory_id, "Other"), store.upsert(tagged)]
    done = await asyncio.gather(*works, store.append([fact("After")]), return_exceptions=True)
    assert [isinstance(each, StoreError) for each in done] == [False, True, True, False]
    await store.delete(broken.memory_id)
    assert await everything(store) == [whole, done[0][0], done[3][0]]  # type: ignore[index]
    assert (await store.verify())[1] == ()


async def test_a_check_names_the_item_whose_hash_is_not_its_texts_and_the_part_that_lost_one(
    store: CollectionStore, database: Database
) -> None:
    one, two = await store.append([fact("One"), fact("Two")])
    assert await store.verify() == (1, ())
    async with database.write() as connection:
        await connection.execute(update(items).where(items.c.id == one.memory_id).values(chunk_hash="0" * 64))
    ((_, message, *_),) = (await store.verify("reviewer"))[1]
    assert one.memory_id in message
    async with database.write() as connection:
        await connection.execute(items.delete().where(items.c.id.in_([one.memory_id, two.memory_id])))
    ((file, message, *_),) = (await store.verify())[1]
    assert (file, message) == (f"{store.name}/reviewer/1", "it should hold 2 items and holds 0")


async def test_a_revision_never_comes_again(store: CollectionStore) -> None:
    seen: list[str] = []
    for _ in range(3):
        (one, _) = await store.append([fact("One"), fact("Two")])
        seen += [part.revision for part in await store.parts()]
        await store.delete(one.memory_id)
        seen += [part.revision for part in await store.parts()]
        await store.remove("reviewer")
    assert len(set(seen)) == len(seen) == 6


async def test_parts_that_hold_nothing_any_more_are_gone_but_for_the_last(
    store: CollectionStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.memory.collection.parts.LARGEST", 2)
    written = await store.append([fact(f"Fact {number}") for number in range(5)])
    for one in written:
        await store.delete(one.memory_id)
    assert await store.parts() == ()
    async with database.read() as connection:
        assert len((await connection.execute(select(item_parts.c.part))).all()) == 1
    await store.append([fact("Again")])
    assert [one.text for one in await everything(store)] == ["Again"]


async def test_who_follows_is_told_what_grew_and_whose_parts_changed(store: CollectionStore) -> None:
    grown: list[Append] = []
    changed: list[str] = []
    store.subscribe(on_append=grown.append)
    store.subscribe(on_change=changed.extend)
    (one, two) = await store.append([fact("One"), fact("Two")])
    await store.append([fact("Three")])
    assert [append.items for append in grown] == [(one, two), (grown[1].items[0],)]
    assert [append.before for append in grown] == [None, grown[0].part.revision]
    assert not changed
    await store.upsert([fact("One", tags=("t",))])
    await store.edit(two.memory_id, "Other")
    await store.delete(one.memory_id)
    await store.remove("reviewer")
    assert (len(grown), changed) == (2, ["reviewer"] * 4)
    assert await store.upsert([fact("New")], keep=frozenset({"tags"}))
    assert grown[-1].before is None


async def test_a_person_reads_what_lasts_and_the_entries_of_a_day(store: CollectionStore) -> None:
    await store.append(
        [
            fact("A fact", tags=("x",)),
            item("Do it so", "procedural"),
            fact("Habit", tags=("pattern",)),
            item("Noted\n- y"),
        ]
    )
    seen = await store.inspect("reviewer", WHEN.date())
    assert seen.memory is not None
    assert seen.log is not None
    assert [line for line in seen.memory.splitlines() if line.startswith("#")] == [
        "# Agent Memory: reviewer", "## Facts", "## Procedures", "## Learned Patterns",
    ]  # fmt: skip
    assert "- A fact" in seen.memory
    assert seen.log.startswith("# Session Log: 2026-02-14\n\n## 10:30 — Noted\n- y\n")
    assert store.name in seen.memory_file
    other_day = await store.inspect("reviewer", WHEN.date().replace(day=1))
    assert (other_day.memory is None, other_day.log) == (False, None)


@pytest.fixture
def failing(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Unavailable]]:
    """The error that every write of the database raises."""
    errors: list[Unavailable] = []

    async def fail(_: object) -> None:
        raise errors[0]

    with monkeypatch.context() as patched:
        patched.setattr(database, "transact", fail)
        yield errors


async def test_a_database_that_is_away_is_a_failing_store_and_one_whose_disk_fails_is_fatal(
    store: CollectionStore, failing: list[Unavailable]
) -> None:
    failing[:] = [Unavailable("the database: gone")]
    for write in (store.append([fact()]), store.upsert([fact()]), store.remove("reviewer")):
        with pytest.raises(StoreAway, match="gone") as caught:
            await write
        assert isinstance(caught.value, Unavailable)
        assert "nothing was stored" in caught.value.line()
    failing[:] = [Unavailable("the database: fsync", fatal=True)]
    with pytest.raises(FsyncFailed, match="fsync"):
        await store.append([fact()])


async def test_a_transaction_that_another_daemon_was_in_the_way_of_is_begun_again(
    store: CollectionStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    transact, refused = database.transact, [Collision(), Collision()]

    async def sometimes(function: object) -> object:
        if refused:
            raise refused.pop()
        return await transact(function)  # type: ignore[arg-type]

    monkeypatch.setattr(database, "transact", sometimes)
    assert len(await store.append([fact()])) == 1


async def test_a_scan_in_pages_misses_nothing_and_gives_nothing_twice(
    store: CollectionStore, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    monkeypatch.setattr("runtime.memory.collection.reader.PAGE", 3)
    await store.append([fact(f"Fact {number}", timestamp=WHEN) for number in range(10)])
    for wanted in (Scan(), Scan(newest_first=True), Scan(limit=7), Scan(agent_id="reviewer", limit=10)):
        found = [one.memory_id async for one in store.scan(wanted)]
        assert len(set(found)) == len(found) == (wanted.limit or 10)
    backwards = [one.memory_id async for one in store.scan(Scan(newest_first=True))]
    assert backwards == sorted(backwards, reverse=True)


async def test_an_item_is_found_by_its_id_without_asking_for_it_in_every_collection(
    store: CollectionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = await store.append([fact(agent_id=f"agent-{number}") for number in range(20)])
    asked: list[Select[Any]] = []
    rows = CollectionReader._rows

    async def noted(reading: CollectionReader, query: Select[Any]) -> Sequence[Any]:
        asked.append(query)
        return await rows(reading, query)

    monkeypatch.setattr(CollectionReader, "_rows", noted)
    wanted = Scan(memory_ids=frozenset(written[number].memory_id for number in (7, 3)))
    assert [one.agent_id async for one in store.scan(wanted)] == ["agent-3", "agent-7"]
    assert len(asked) == 5  # the names, and for each collection its items and their sources


async def test_more_ids_can_be_asked_for_than_a_statement_takes_parameters(store: CollectionStore) -> None:
    (one, _) = await store.append([fact(), fact("Two")])
    ids = frozenset({one.memory_id, *map(str, range(40_000))})
    assert [each async for each in store.scan(Scan(memory_ids=ids))] == [one]


async def test_the_items_of_a_source_are_looked_up_and_not_looked_for(
    tmp_path: Path, master_key: MasterKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await Database.open(migrated(tmp_path / "symbiont.db"), master_key)
    store = CollectionStore(declared().name, database)
    asked: list[Select[Any]] = []
    rows = CollectionReader._rows

    async def noted(reading: CollectionReader, query: Select[Any]) -> Sequence[Any]:
        asked.append(query)
        return await rows(reading, query)

    monkeypatch.setattr(CollectionReader, "_rows", noted)
    wanted = Scan(agent_id="reviewer", user_id="owner", project_id="p", source_uri="file:///a.md")
    assert [one async for one in store.scan(wanted)] == []
    sql = str(asked[-1].compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
    async with database.read() as connection:
        plan = (await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}")).all()
    assert "ix_items_source" in str(plan)
    await store.close()
    await database.close()


async def test_an_entry_that_holds_what_is_put_nowhere_is_kept_and_told_and_one_changed_is_looked_at_again(
    store: CollectionStore, clock: ManualClock
) -> None:
    clock.advance(WHEN.timestamp() + 86_400 * 90 - clock.now())
    fenced, plain = await store.append(
        [item("Log\n```\n- [fact] an example\n```"), item("Log of many\n- nothing [fact] here")]
    )
    done = await store.compact("reviewer", older_than=WHEN.date() + timedelta(days=30))
    assert (done.flushed, done.deleted) == (0, 1)
    (problem,) = done.problems
    assert (problem.severity, "1 expired entries are not deleted" in problem.message) == ("warning", True)
    assert [one.memory_id async for one in store.scan()] == [fenced.memory_id]
    assert plain.memory_id != fenced.memory_id
    await store.edit(fenced.memory_id, "Log\n- [fact] meant", agent_id="reviewer")
    assert await store.compact("reviewer", older_than=WHEN.date() + timedelta(days=30)) == (1, 1, ())
    assert [(one.text, one.memory_type) async for one in store.scan()] == [("meant", "semantic")]
    # Every part counts its items.
    assert (await store.verify())[1] == ()
