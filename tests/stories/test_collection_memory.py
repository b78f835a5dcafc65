"""The collection that exists without a block: opened at its first use, and kept open from then on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runtime.daemon.process.root import Root, make
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import App
from runtime.errors import UsageError
from runtime.memory.indexing.indexer import Start
from runtime.memory.open_memory import OpenMemory
from tests.runtime.memory.texts import fact

RECORDER = 'agent reviewer {}\nwebhook w {\n    path "/w"\n    secret "s"\n    agent reviewer\n}\n'


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make(tmp_path, os.environ, tmp_path)


@pytest.fixture
async def app(root: Root, tmp_path: Path) -> AsyncIterator[App]:
    program(tmp_path, RECORDER)
    async with App.open(root, ProcessSettings.read({})) as opened:
        await opened.load([tmp_path / "p.symbiont"])
        yield opened


def program(folder: Path, text: str) -> None:
    (folder / "p.symbiont").write_text(text)


async def test_a_program_without_a_collection_has_none_until_it_is_asked_for(app: App) -> None:
    assert set(app.generation.memories) == {"default"}
    memory = await app.generation.memories.collection()
    assert memory.name == "collection"
    assert set(app.generation.memories) == {"default", "collection"}
    assert app.generation.memories.name_of("reviewer") == "default"
    assert await app.generation.memories.collection() is memory


async def test_a_caller_that_is_cancelled_leaves_none_that_is_half_open(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, activate = asyncio.Event(), OpenMemory.activate

    async def held_up(memory: OpenMemory, start: Start | None = None, **given: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(OpenMemory, "activate", held_up)
    asking = asyncio.create_task(app.generation.memories.collection())
    await begun.wait()
    asking.cancel()
    await asyncio.wait({asking})
    assert set(app.generation.memories) == {"default"}
    activated: list[str] = []

    async def noted(memory: OpenMemory, start: Start | None = None, **given: Any) -> None:
        await activate(memory, start, **given)
        activated.append(memory.name)

    monkeypatch.setattr(OpenMemory, "activate", noted)
    assert (await app.generation.memories.collection()).name == "collection"
    assert activated == ["collection"]


async def test_it_stays_open_over_a_reload_and_is_given_back_at_the_end(app: App, tmp_path: Path) -> None:
    store = (await app.generation.memories.collection()).store
    program(tmp_path, RECORDER + "memory default {}\n")
    assert await app.reload()
    assert app.generation.memories["collection"].store is store
    assert len(app.state.pools.stores) == 3, "two memories, and the search of tasks"
    program(tmp_path, RECORDER + "memory collection {\n    store collection\n}\nmemory default {}\n")
    assert await app.reload()
    assert (await app.generation.memories.collection()).store is store


async def test_it_is_opened_with_the_others_when_something_is_in_it(root: Root, tmp_path: Path) -> None:
    program(tmp_path, RECORDER)
    for memories in ({"default"}, {"default", "collection"}):
        async with App.open(root, ProcessSettings.read({})) as app:
            await app.load([tmp_path / "p.symbiont"])
            assert set(app.generation.memories) == memories
            assert app.generation.memories.name_of("reviewer") == "default"
            await (await app.generation.memories.collection()).upsert([fact(agent_id="collection")])
        assert len(app.state.pools.stores) == 0


async def test_a_memory_of_that_name_that_is_none_is_said_to_be_none(app: App, tmp_path: Path) -> None:
    program(tmp_path, RECORDER + "memory collection {}\n")
    assert await app.reload()
    with pytest.raises(UsageError, match="is not a collection"):
        await app.generation.memories.collection()


async def test_a_collection_that_is_the_only_memory_is_the_agents_own(app: App, tmp_path: Path) -> None:
    program(tmp_path, RECORDER + "memory notes {\n    store collection\n}\n")
    assert await app.reload()
    assert app.generation.memories.name_of("reviewer") == "notes"
    assert app.generation.folders == ()
