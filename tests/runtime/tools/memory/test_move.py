"""`memory_move` compares the copies and reports every difference."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.clock import utc
from runtime.database.connection import Database
from runtime.identity.caller import OWNER_CALLER, Caller, Forbidden
from runtime.memory.item import Item
from runtime.memory.store_types import ItemLocation, Part
from runtime.search.errors import EmbeddingUnavailable, IndexFailed
from runtime.tools import TOOLS
from runtime.tools.maintenance.move import MovedMemory
from tests.clocks import ManualClock
from tests.runtime.api.app import App, memories_of
from tests.runtime.memory.opened import open_memory


class Moving(App):
    """An app with two collections, and the reported progress."""

    told: list[tuple[str, int, int]]


@pytest.fixture
async def app(tmp_path: Path, database: Database, clock: ManualClock) -> AsyncIterator[Moving]:
    """Return two collections, with three items in the first."""
    memories = {}
    for name in ("notes", "archive"):
        block = Memory.model_validate(
            {"name": name, "store": Variant(name="collection"), "embedding": Variant(name="hashing")}
        )
        memories[name] = await open_memory(
            block, tmp_path, index_folder=tmp_path / "index", clock=clock, database=database
        )
    now = utc(clock.now())
    await memories["notes"].upsert(
        Item(agent_id="notes", memory_type="semantic", timestamp=now, text=f"Fact {number}") for number in range(3)
    )
    app = Moving(database, clock)
    app.memories, app.told = memories_of(memories), []
    yield app
    for memory in memories.values():
        await memory.close()


async def move(app: Moving, caller: Caller = OWNER_CALLER, **more: object) -> MovedMemory:
    """Move notes to archive."""
    context = app.context(caller, lambda *said: app.told.append(said))
    answer = await TOOLS["memory_move"].call(context, {"source": "notes", "target": "archive", **more})
    assert isinstance(answer, MovedMemory)
    return answer


async def test_a_move_says_how_far_it_is_and_answers_equal_hashes(app: Moving) -> None:
    answer = await move(app)
    assert answer.good
    assert [row.copied for row in answer.agents] == [3]
    assert {what.split()[0] for what, _, _ in app.told} >= {"copying", "embedding", "verifying"}


async def test_an_item_that_was_lost_is_named(app: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    goal = app.memories["archive"]
    append = goal.store.append

    async def losing(items: Iterable[Item], **more: Any) -> tuple[Item, ...]:
        *_, last = written = await append(items, **more)
        await goal.store.delete(last.memory_id)
        return tuple(written)

    monkeypatch.setattr(goal.store, "append", losing)
    answer = await move(app)
    assert not answer.good
    missing, differing = answer.agents[0].problems
    assert missing.endswith("is not in archive")
    assert "notes in notes is 3 items with the sha256" in differing
    assert "archive has 2 with" in differing


async def test_an_item_that_was_changed_on_the_way_is_named(app: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    goal = app.memories["archive"]
    append = goal.store.append

    async def changing(items: Iterable[Item], **more: Any) -> tuple[Item, ...]:
        first, *_ = written = await append(items, **more)
        await goal.store.replace(first.with_fields(tags=("other",)))
        return tuple(written)

    monkeypatch.setattr(goal.store, "append", changing)
    answer = await move(app)
    assert not answer.good
    assert "sha256" in answer.agents[0].problems[0]


async def test_an_embedding_that_is_away_is_told(app: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> int:
        raise EmbeddingUnavailable("nobody answers")

    monkeypatch.setattr(app.memories["archive"], "embed", away)
    answer = await move(app)
    assert answer.problems == ["some items have no vector: nobody answers"]
    assert answer.agents[0].problems == ["3 entries of archive in the index of archive have no vector"]
    assert not answer.good
    monkeypatch.undo()
    assert (await move(app)).good


async def test_an_index_that_cannot_be_read_is_told(app: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise IndexFailed("the server is away")

    monkeypatch.setattr(app.memories["archive"], "index_stats", broken)
    answer = await move(app)
    assert answer.agents[0].problems == ["the index of archive cannot be read: the server is away"]
    assert answer.agents[0].items_there == 3


async def test_what_changes_while_it_is_copied_is_copied_again(app: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = app.memories["notes"]
    read = origin.store.read
    looks = 0

    async def growing(part: Part) -> Sequence[tuple[Item, ItemLocation | None]]:
        nonlocal looks
        looks += 1
        found = await read(part)
        if looks == 1:
            first = found[0][0]
            await origin.store.replace(first.with_fields(text="Changed meanwhile", chunk_hash=""))
            await origin.store.append([first.with_fields(text="Came meanwhile", chunk_hash="", memory_id="")])
        return found

    monkeypatch.setattr(origin.store, "read", growing)
    answer = await move(app)
    assert answer.good, answer
    (row,) = answer.agents
    assert (row.items, row.copied, row.items_there, row.different) == (4, 4, 4, 0)


async def test_only_administrators_move(app: Moving) -> None:
    with pytest.raises(Forbidden):
        await move(app, Caller(user_id="ada", scopes=frozenset({"read", "write"})))


async def test_each_text_is_searched_for_secrets_once(app: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def noted(text: str) -> str:
        searched.append(text)
        return text

    monkeypatch.setattr("runtime.memory.store.redact", noted)
    assert (await move(app)).good
    assert sorted(text for text in searched if text.startswith("Fact")) == ["Fact 0", "Fact 1", "Fact 2"]
