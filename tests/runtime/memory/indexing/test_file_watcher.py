"""Changes of a memory's files are noticed, whichever process makes them and in whatever way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from runtime.memory.indexing import file_watcher
from runtime.memory.indexing.file_watcher import FileWatcher
from runtime.memory.indexing.indexer import Indexer
from runtime.memory.markdown.store import MarkdownStore
from runtime.search.index import open_index
from tests.clocks import ManualClock, until
from tests.lanes import LONG


@pytest.fixture
async def indexer(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Indexer]:
    store = MarkdownStore(tmp_path / "agents", clock)
    made = Indexer(store, await open_index(None, None, {}), clock)
    yield made
    await made.close()
    await store.close()


class Told:
    """Return the agents whose files changed, as reported by the watcher."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer
        self.agents: set[str] = set()

    def has(self, *agents: str) -> bool:
        self.agents |= self._indexer.take_changed_agents()
        return set(agents) <= self.agents

    async def forget(self) -> None:
        """Forget what was told as soon as nothing more is told for a second."""
        while self._indexer.take_changed_agents():
            await asyncio.sleep(1)
        self.agents.clear()


@asynccontextmanager
async def watched(indexer: Indexer, folder: Path) -> AsyncIterator[Told]:
    """Start a watch and wait until it has begun."""
    task = asyncio.create_task(FileWatcher(indexer, folder).run())
    told = Told(indexer)
    marker = folder / "marker" / "memory.md"
    marker.parent.mkdir(parents=True, exist_ok=True)

    def listens() -> bool:
        marker.write_text(f"- {marker.stat().st_mtime_ns if marker.exists() else 0}\n")
        return told.has("marker")

    await until(listens)
    await asyncio.sleep(1)
    await told.forget()
    yield told
    task.cancel()
    await asyncio.wait({task})


async def test_every_way_of_saving_a_file_is_noticed_with_whose_it_is(indexer: Indexer, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    async with watched(indexer, folder) as told:
        (folder / "new/logs").mkdir(parents=True)
        (folder / "new/logs/2026-02-14.md").write_text("# Session Log: 2026-02-14\n")
        await until(lambda: told.has("new"))
        memory = folder / "marker/memory.md"
        await told.forget()
        with memory.open("a") as handle:
            handle.write("- more\n")
        await until(lambda: told.has("marker"))
        await asyncio.sleep(1)
        await told.forget()
        (folder / "marker/elsewhere.md").write_text("- one\n")
        (folder / "marker/elsewhere.md").rename(memory)
        await until(lambda: told.has("marker"))
        await asyncio.sleep(1)
        await told.forget()
        memory.unlink()
        await until(lambda: told.has("marker"))


@LONG
async def test_what_is_hidden_is_nobodys_matter(indexer: Indexer, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    async with watched(indexer, folder) as told:
        (folder / "marker/.memory.md.tmp").write_text("on the way")
        (folder / ".lock").write_text("")
        await asyncio.sleep(1.5)
        assert told.has()
        assert told.agents == set()


@LONG
async def test_a_folder_that_is_replaced_is_watched_again(indexer: Indexer, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    async with watched(indexer, folder) as told:
        folder.rename(tmp_path / "before")
        (folder / "other").mkdir(parents=True)
        (folder / "other/memory.md").write_text("## Facts\n- one\n")
        await until(lambda: told.has("other"))
        await told.forget()

        def writes_again() -> bool:
            (folder / "other/memory.md").write_text("## Facts\n- two\n")
            return told.has("other")

        await until(writes_again)


async def test_where_the_system_watches_no_more_folders_it_says_so_and_looks_now_and_then(
    indexer: Indexer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")  # inotify_add_watch(2) fails with ENOSPC then.

    monkeypatch.setattr(file_watcher, "awatch", full)
    (tmp_path / "agents").mkdir()
    watch = FileWatcher(indexer, tmp_path / "agents")
    with structlog.testing.capture_logs() as logs:
        await watch.run()
    assert watch.blind
    assert indexer.news.is_set()
    assert [each["log_level"] for each in logs] == ["warning"]
