"""The state after a killed writer, a full disk, or several writers at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from runtime.memory.records.store import RecordsStore
from tests.lanes import LONG, first_of
from tests.runtime.memory import faults, writer
from tests.runtime.memory.records.pieces import events, read_json, record_files

pytestmark = LONG

CASES = "tests.runtime.memory.records.faults"


def nothing_broke(found: list[faults.Found]) -> None:
    assert [case["case"] for case in found] == ["first", "append", "sent", "failed", "index", "forget"]
    for case in found:
        # Forgetting frees its own space.
        assert case["faults"] > 1 or case["case"] == "forget", case
        assert case["broken"] == [], case


@first_of("kind", ["full", "kill"])
def test_a_fault_at_any_write_loses_nothing_and_leaves_nothing_half_done(kind: faults.Kind) -> None:
    nothing_broke(faults.found(kind, CASES))


def test_a_disk_that_is_full_at_any_page_loses_nothing(tmp_path: Path) -> None:
    nothing_broke(faults.found_on_a_small_disk(CASES, tmp_path))


async def test_several_processes_that_write_at_once_lose_nothing_and_agree_on_the_index(
    store: RecordsStore, folder: Path
) -> None:
    writers = [writer.start("records", store.root, 1000 * number, 40) for number in range(2)]
    # The first process writes these too: each delivery still has one record.
    await asyncio.gather(*(writer.remember(store, number) for number in range(40)))
    assert [one.wait() for one in writers] == [0, 0]
    titles = writer.titles_of([*range(40), *range(1000, 1040)])
    assert await writer.titles(store) == titles
    await store.close()
    found = read_json(folder / "index.json")
    assert found["memory_count"] == len(titles)
    assert sum(len(ids) for ids in found["by_tag"].values()) == 80
    assert events(folder) == ["memory_store_local"] * len(titles)


async def test_a_writer_that_is_killed_loses_nothing_that_it_said_was_kept(store: RecordsStore, folder: Path) -> None:
    said: set[int] = set()
    for number in range(3):
        said |= writer.killed("records", store.root, 10_000 * number, 10 + 7 * number)
    await store.recover()
    found = await writer.titles(store)
    assert set(writer.titles_of(said)) <= set(found)
    await asyncio.gather(*(writer.remember(store, number) for number in said))
    assert await writer.titles(store) == found
    assert (await store.verify())[1] == ()
    assert events(folder) == ["memory_store_local"] * len(found)
    assert len(record_files(folder)) == len(found)
    assert not [file for file in store.root.rglob("*") if "~" in file.name]
    assert read_json(folder / "index.json")["memory_count"] == len(found)
