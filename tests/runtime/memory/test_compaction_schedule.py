"""Memories are compacted once a day, each at its own time, whatever happens to one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.memory.compaction_schedule import COMPACTION_AT, DAY, SPREAD, TICK_SECONDS, Compactor
from runtime.memory.errors import FsyncFailed, StoreError
from runtime.memory.item import Item
from runtime.memory.open_memory import OpenMemory
from tests.clocks import ManualClock, until
from tests.runtime.memory.opened import open_memory

OLD = "# Session Log: 2020-01-02\n\n## 10:30 — Review\n- [fact] The cache is called pond\n- done\n"


class App:
    """Two memories, and how often they were held open."""

    def __init__(self, memories: Mapping[str, OpenMemory]) -> None:
        self.memories = memories
        self.pins = 0

    @asynccontextmanager
    async def pinned(self) -> AsyncIterator[Mapping[str, OpenMemory]]:
        self.pins += 1
        yield self.memories


@pytest.fixture
async def app(tmp_path: Path, clock: ManualClock) -> AsyncIterator[App]:
    blocks = [Memory(name=name, path=f"data/{name}", embedding=Variant(name="hashing")) for name in ("one", "two")]
    opened = {each.name: await open_memory(each, tmp_path, index_folder=None, clock=clock) for each in blocks}
    yield App(opened)
    for memory in opened.values():
        await memory.close()


class Kept:
    """A store of the times of compactions."""

    def __init__(self) -> None:
        self.moments: dict[str, Any] = {}
        self.full = False

    def write(self, moments: Mapping[str, float]) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.moments = dict(moments)


@pytest.fixture
def kept() -> Kept:
    return Kept()


@asynccontextmanager
async def compacting(app: App, clock: ManualClock, kept: Kept) -> AsyncIterator[asyncio.Task[None]]:
    compactor = Compactor(app.pinned, clock, read=lambda: kept.moments, write=kept.write)
    task = asyncio.create_task(compactor.run())
    await until(lambda: clock.sleepers == 1 or task.done())
    yield task
    task.cancel()
    await asyncio.wait({task})


def log(app: App, memory: str, agent: str = "reviewer") -> Path:
    folder = app.memories[memory].folder
    assert folder is not None
    file = folder / agent / "logs/2020-01-02.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(OLD)
    return file


async def pass_time(clock: ManualClock, seconds: float) -> None:
    """Run the compactor until it waits for the clock."""
    while seconds > 0:
        step = min(seconds, TICK_SECONDS * 10)
        clock.advance(step)
        seconds -= step
        await until(lambda: clock.sleepers == 1)


async def test_what_was_missed_is_done_at_the_start_and_then_once_a_day(
    app: App, clock: ManualClock, kept: Kept
) -> None:
    file = log(app, "one")
    async with compacting(app, clock, kept):
        assert not file.exists()
        assert (folder := app.memories["one"].folder) is not None
        assert "The cache is called pond" in (folder / "reviewer/memory.md").read_text()
        log(app, "one")
        # It is 10:30; the next time is after 3 o'clock.
        await pass_time(clock, 16 * 3600)
        assert file.exists()
        await pass_time(clock, 2 * 3600)
        assert not file.exists()
    assert sorted(kept.moments) == sorted(memory.store.identity for memory in app.memories.values())
    since_midnight = [at % DAY for at in kept.moments.values()]
    assert all(COMPACTION_AT <= at <= COMPACTION_AT + SPREAD + 10 * TICK_SECONDS for at in since_midnight)


async def test_a_restart_does_nothing_twice(app: App, clock: ManualClock, kept: Kept) -> None:
    async with compacting(app, clock, kept):
        pass
    file = log(app, "one")
    async with compacting(app, clock, kept):
        assert file.exists()
    clock.advance(DAY)
    async with compacting(app, clock, kept):
        assert not file.exists()


async def test_logs_are_kept_for_as_long_as_the_program_says(app: App, clock: ManualClock, kept: Kept) -> None:
    memory = app.memories["one"]
    assert memory.folder is not None
    logs = memory.folder / "reviewer/logs"
    logs.mkdir(parents=True)
    last, gone = date(2025, 11, 16), date(2025, 11, 15)  # 90 days before 2026-02-14
    for day in (last, gone):
        (logs / f"{day}.md").write_text(f"# Session Log: {day}\n\n## 10:30 — Review\n- done\n")
    async with compacting(app, clock, kept):
        assert [file.name for file in logs.glob("2*.md")] == [f"{last}.md"]


async def test_an_error_on_one_agent_is_said_and_the_others_go_on(app: App, clock: ManualClock, kept: Kept) -> None:
    first, second, third = log(app, "one", "a"), log(app, "one", "b"), log(app, "two")
    (first.parent.parent / "memory.md").mkdir()
    with structlog.testing.capture_logs() as logs:
        async with compacting(app, clock, kept):
            assert (first.exists(), second.exists(), third.exists()) == (True, False, False)
    (error,) = [each for each in logs if each["log_level"] == "error"]
    assert (error["memory"], error["agent"]) == ("one", "a")
    assert len(app.memories["one"].not_compacted) == 1
    (first.parent.parent / "memory.md").rmdir()
    await app.memories["one"].compact("a", datetime.fromtimestamp(clock.now(), UTC))
    assert not first.exists()
    assert not app.memories["one"].not_compacted


async def test_a_note_that_cannot_be_kept_stops_nothing(app: App, clock: ManualClock, kept: Kept) -> None:
    kept.full = True
    file = log(app, "one")
    async with compacting(app, clock, kept) as task:
        assert not file.exists()
        await pass_time(clock, 3600)
        assert not task.done()


@pytest.mark.parametrize("nonsense", ["yesterday", None, [], 1e12])
async def test_a_note_that_makes_no_sense_is_no_note(app: App, clock: ManualClock, kept: Kept, nonsense: Any) -> None:
    kept.moments = {app.memories["one"].store.identity: nonsense}
    file = log(app, "one")
    async with compacting(app, clock, kept):
        assert not file.exists()


async def test_a_failed_fsync_ends_it(
    app: App, clock: ManualClock, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(app, "one")

    async def failed(*_: object, **__: object) -> None:
        raise FsyncFailed("the disk did not say that it has it")

    monkeypatch.setattr(app.memories["one"].store, "_compact", failed)
    async with compacting(app, clock, kept) as task:
        assert isinstance(task.exception(), FsyncFailed)


async def test_a_store_that_cannot_be_listed_is_said(
    app: App, clock: ManualClock, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failed() -> tuple[str, ...]:
        raise StoreError("the folder cannot be read")

    monkeypatch.setattr(app.memories["one"].store, "agents", failed)
    file = log(app, "two")
    with structlog.testing.capture_logs() as logs:
        async with compacting(app, clock, kept):
            assert not file.exists()
    assert "the folder cannot be read" in [each.get("reason") for each in logs]


async def test_a_collection_keeps_its_entries_unless_its_block_says_for_how_long(
    tmp_path: Path, clock: ManualClock, database: Database
) -> None:
    """The collection may be the only memory of an agent."""
    told = Variant(name="collection"), Variant(name="hashing")
    blocks = [
        Memory(name="all", store=told[0], embedding=told[1]),
        Memory(name="month", store=told[0], embedding=told[1], retention=timedelta(days=30)),
    ]
    memories = {
        each.name: await open_memory(each, tmp_path, index_folder=None, clock=clock, database=database)
        for each in blocks
    }
    old = datetime.fromtimestamp(clock.now(), UTC) - timedelta(days=40)
    entry = {"agent_id": "reviewer", "memory_type": "episodic", "text": "Review\n- [fact] The cache is called pond"}
    for memory in memories.values():
        for back in (0, 39):
            await memory.store.append([Item.model_validate({**entry, "timestamp": old + timedelta(days=back)})])
    kept = Kept()
    compactor = Compactor(App(memories).pinned, clock, read=dict, write=kept.write)
    running = asyncio.create_task(compactor.run())
    await until(lambda: len(kept.moments) == 2)
    running.cancel()
    for name, entries in (("all", 2), ("month", 1)):
        items = [item async for item in memories[name].store.scan()]
        assert [item.text for item in items if item.memory_type == "semantic"] == ["The cache is called pond"]
        assert len([item for item in items if item.memory_type == "episodic"]) == entries
        await memories[name].close()
