"""Undo of what one run wrote, in every store: by deletion, or by a retraction where nothing is deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.memory.item import Item, Provenance, run_uri
from runtime.memory.items import undo, validity
from runtime.memory.items.undo import foresee_undo, undo_items
from runtime.memory.items.validity import Validity, validity_of
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import Scan
from runtime.search.entry import EntryFilter
from runtime.search.question import Question
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.memory.opened import open_memory
from tests.runtime.memory.texts import WHEN, fact, item

LATER = WHEN + timedelta(days=1)


@pytest.fixture(params=["markdown", "records", "collection"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenMemory]:
    database = await Database.open(with_keys(tmp_path / "symbiont.db", KEY), KEY)
    block = Memory(name="notes", store=Variant(name=request.param), embedding=Variant(name="hashing"))
    opened = await open_memory(block, tmp_path, index_folder=tmp_path / "index", database=database)
    yield opened
    await opened.close()
    await database.close()


async def written(memory: OpenMemory, one: Item, run: str | None = "run", key: str = "1") -> Item:
    """Append an item as a call of a run does; None: as a person does."""
    if run is not None:
        one = one.with_fields(provenance=Provenance(run_id=run, said_by="agent"), source_uri=run_uri(run, key))
    (found,) = await memory.store.append([one])
    return found


async def found(memory: OpenMemory) -> list[str]:
    """Return the texts that a search finds, in alphabetical order."""
    wanted = EntryFilter(agent="reviewer", current=True)
    answer = await memory.search(Question(text="lives", now=LATER, limit=50, wanted=wanted))
    return sorted(hit.item.text for hit in answer.hits)


async def undone(memory: OpenMemory, run: str = "run") -> list[tuple[str, str]]:
    """Undo a run as it was foreseen; return text and outcome of each of its items."""
    foreseen = await foresee_undo(memory, "owner", run, agent_id="reviewer", began=WHEN)
    done = await undo_items(memory, "owner", run, LATER, agent_id="reviewer", began=WHEN)
    outcomes: list[tuple[str, str]] = [(each.item.text, each.outcome) for each in done]
    assert [(each.item.text, each.outcome) for each in foreseen] == outcomes
    return outcomes


def gone(memory: OpenMemory) -> str:
    return "deleted" if "delete" in memory.store.capabilities else "retracted"


async def test_what_a_run_wrote_is_found_no_more_and_nothing_else_changes(memory: OpenMemory) -> None:
    await written(memory, fact("Ada lives in Lyon"))
    await written(memory, item("Bob lives in Rome"), key="2")
    await written(memory, fact("Cleo lives in Bern"), "another")
    await written(memory, fact("Dora lives in Kyiv"), None)
    await written(memory, fact("Eve lives in Oslo", user_id="eve"), key="3")
    await written(memory, fact("Finn lives in Cork", agent_id="other"), key="4")
    assert sorted(await undone(memory)) == [("Ada lives in Lyon", gone(memory)), ("Bob lives in Rome", gone(memory))]
    assert await found(memory) == ["Cleo lives in Bern", "Dora lives in Kyiv", "Eve lives in Oslo"]
    again = [] if gone(memory) == "deleted" else ["unchanged", "unchanged"]
    assert [outcome for _, outcome in await undone(memory)] == again
    await memory.reindex()
    assert await found(memory) == ["Cleo lives in Bern", "Dora lives in Kyiv", "Eve lives in Oslo"]


async def test_what_a_run_had_replaced_is_valid_again(memory: OpenMemory) -> None:
    old = await written(memory, fact("Ada lives in Lyon"), None)
    newer = await written(memory, fact("Ada lives in Oslo", replaces=old.memory_id))
    await written(memory, fact("Ada lives in Lyon", replaces=newer.memory_id, timestamp=LATER), key="2")
    assert await found(memory) == ["Ada lives in Lyon"]
    assert await undone(memory) == [("Ada lives in Lyon", gone(memory)), ("Ada lives in Oslo", gone(memory))]
    assert await found(memory) == ["Ada lives in Lyon"]
    assert (await validity_of(memory, [old]))[old.memory_id].current


async def test_what_another_replaced_meanwhile_is_reported_and_left(memory: OpenMemory) -> None:
    old = await written(memory, fact("Ada lives in Lyon"), None)
    mine = await written(memory, fact("Ada lives in Oslo", replaces=old.memory_id))
    theirs = await written(memory, fact("Ada lives in Rome", replaces=mine.memory_id), "another")
    (done,) = await undo_items(memory, "owner", "run", LATER)
    assert (done.item, done.outcome, done.replaced_by) == (mine, "replaced", theirs.memory_id)
    assert await found(memory) == ["Ada lives in Rome"]
    assert await undone(memory, "another") == [("Ada lives in Rome", gone(memory))]
    assert await found(memory) == ["Ada lives in Oslo"]
    assert await undone(memory) == [("Ada lives in Oslo", gone(memory))]
    assert await found(memory) == ["Ada lives in Lyon"]


async def test_what_another_replaced_is_left_with_all_of_the_run_that_it_hides(memory: OpenMemory) -> None:
    first = await written(memory, fact("Ada lives in Lyon"))
    second = await written(memory, fact("Ada lives in Oslo", replaces=first.memory_id, timestamp=LATER), key="2")
    await written(memory, fact("Ada lives in Rome", replaces=second.memory_id), "another")
    assert await undone(memory) == [("Ada lives in Oslo", "replaced"), ("Ada lives in Lyon", "replaced")]
    assert await found(memory) == ["Ada lives in Rome"]


async def test_equal_entries_of_a_run_are_all_withdrawn_and_those_of_others_stay(memory: OpenMemory) -> None:
    for run, key in (("run", "1"), (None, ""), ("run", "2"), ("another", "1")):
        await written(memory, item("It lives"), run, key)
    assert await undone(memory) == [("It lives", gone(memory))] * 2
    assert await found(memory) == ["It lives", "It lives"]


async def test_each_subjects_items_of_a_run_are_withdrawn(memory: OpenMemory) -> None:
    kept = await written(memory, fact("It lives", subject="two"), "another")
    await written(memory, fact("It lives", subject="one"))
    assert await undone(memory) == [("It lives", gone(memory))]
    assert await found(memory) == ["It lives"]
    assert (await validity_of(memory, [kept]))[kept.memory_id].current


async def test_a_store_is_read_as_often_for_many_items_as_for_one(
    memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        await written(memory, fact(f"Number {number} lives"), key=f"fact {number}")
        await written(memory, item(f"Number {number} lives"), key=f"entry {number}")
    await memory.sync()
    scans: list[Scan | None] = []
    scan = memory.store.scan

    def counted(wanted: Scan | None = None) -> AsyncIterator[Item]:
        scans.append(wanted)
        return scan(wanted)

    monkeypatch.setattr(memory.store, "scan", counted)
    assert [outcome for _, outcome in await undone(memory)] == [gone(memory)] * 24
    # Before and after the deletion, and once to foresee it.
    assert len(scans) == 3
    assert await found(memory) == []


async def test_what_another_deleted_meanwhile_is_not_counted(
    memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        await written(memory, fact(f"Number {number} lives"), key=str(number))

    async def overtaken(memory: OpenMemory, items: Iterable[Item]) -> Mapping[str, Validity]:
        found = await validity_of(memory, items)
        monkeypatch.undo()
        await undo_items(memory, "owner", "run", LATER)
        return found

    monkeypatch.setattr(undo, "validity_of", overtaken)
    assert [each.outcome for each in await undo_items(memory, "owner", "run", LATER)] == ["unchanged"] * 3
    assert await found(memory) == []


async def test_very_many_changes_are_all_known(memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity, "_IDS", 3)
    monkeypatch.setattr(validity, "_PAGE", 2)
    old = [await written(memory, fact(f"Number {number} lived"), None) for number in range(8)]
    new = [
        await written(memory, fact(f"Number {number} lives", replaces=each.memory_id, timestamp=LATER), None)
        for number, each in enumerate(old)
    ]
    known = await validity_of(memory, [*old, *new])
    assert [known[each.memory_id].replaced_by for each in old] == new
    assert all(known[each.memory_id].current for each in new)
