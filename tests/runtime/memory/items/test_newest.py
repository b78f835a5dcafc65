"""The newest items of a memory: index and store agree, and items that the index lacks are read from the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.memory.item import Item
from runtime.memory.items.newest import newest
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import position_of
from runtime.search.entry import EntryFilter
from runtime.search.errors import IndexFailed
from tests.clocks import ManualClock
from tests.runtime.memory.opened import open_memory
from tests.runtime.memory.texts import WHEN, fact, item

FILTERS = (
    EntryFilter(),
    EntryFilter(agent="reviewer"),
    EntryFilter(agent="nobody"),
    EntryFilter(user="ada"),
    EntryFilter(type="episodic"),
    EntryFilter(tags_all=frozenset({"a", "b"})),
    EntryFilter(tags_any=frozenset({"a", "b"}), agent="planner"),
    EntryFilter(tags_all=frozenset({"none"})),
    EntryFilter(since=WHEN - timedelta(days=2), until=WHEN),
)


@pytest.fixture(params=["markdown", "records"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[OpenMemory]:
    block = Memory(name="notes", path="agents", store=Variant(name=request.param), embedding=Variant(name="hashing"))
    opened = await open_memory(block, tmp_path, index_folder=tmp_path / "index", clock=clock)
    yield opened
    await opened.close()


async def fill(memory: OpenMemory) -> None:
    for day in (0, 1, 3, 100):
        when = WHEN - timedelta(days=day)
        await memory.store.append(
            [
                item(f"A day {day}", timestamp=when, tags=("a",)),
                item(f"Another {day}", timestamp=when, tags=("a", "b"), user_id="ada"),
                fact(f"A fact {day}", timestamp=when, agent_id="planner", tags=("b",)),
            ]
        )


async def pages(memory: OpenMemory, wanted: EntryFilter, size: int) -> list[Item]:
    found: list[Item] = []
    before = None
    while page := await newest(memory, wanted, size, before=before):
        found += page
        before = position_of(page[-1])
    return found


async def away(*_: Any) -> Any:
    raise IndexFailed("the index does not answer")


async def test_the_index_says_what_the_store_would(memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(memory)
    for wanted in FILTERS:
        said = await pages(memory, wanted, 2)
        assert said == sorted(said, key=position_of, reverse=True)
        with monkeypatch.context() as patched:
            patched.setattr(memory.indexer.index, "newest", away)
            assert await pages(memory, wanted, 2) == said
            assert await pages(memory, wanted, 50) == said
        assert await pages(memory, wanted, 50) == said


async def test_no_item_is_read_from_the_store_where_the_index_knows_them(
    memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(memory)
    assert await newest(memory, EntryFilter(), 3)
    monkeypatch.setattr(memory.store, "scan", None)
    monkeypatch.setattr(memory.store, "read", None)
    assert len(await newest(memory, EntryFilter(), 3)) == 3
    assert await newest(memory, EntryFilter(tags_all=frozenset({"none"})), 3) == []


async def test_what_is_in_no_index_yet_comes_from_the_store(
    memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(memory)

    async def lacking(_agent: str | None) -> list[str]:
        return ["the index is still being built"]

    monkeypatch.setattr(memory, "catch_up", lacking)
    found = await newest(memory, EntryFilter(agent="reviewer"), 1)
    assert [each.timestamp for each in found] == [WHEN]


async def test_an_item_is_found_by_the_beginning_of_its_id(memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(memory)
    one = (await newest(memory, EntryFilter(user="ada"), 1))[0]
    for _ in ("index", "store"):
        assert one in await newest(memory, EntryFilter(), 9, prefix=one.memory_id[:5])
        assert await newest(memory, EntryFilter(), 9, prefix=one.memory_id) == [one]
        assert await newest(memory, EntryFilter(user="bob"), 9, prefix=one.memory_id) == []
        monkeypatch.setattr(memory.indexer.index, "newest", away)


async def test_what_a_person_writes_is_listed_at_once(tmp_path: Path, clock: ManualClock) -> None:
    block = Memory(name="notes", path="agents", embedding=Variant(name="hashing"))
    opened = await open_memory(block, tmp_path, index_folder=None, clock=clock)
    await opened.store.append([fact("The walnut")])
    assert [each.text for each in await newest(opened, EntryFilter(), 9)] == ["The walnut"]
    file = tmp_path / "agents" / "reviewer" / "memory.md"
    file.write_text(file.read_text().replace("- The walnut", "- The hazel\n- The oak"))
    assert {each.text for each in await newest(opened, EntryFilter(), 9)} == {"The hazel", "The oak"}
    file.unlink()
    assert await newest(opened, EntryFilter(), 9) == []
    await opened.close()
