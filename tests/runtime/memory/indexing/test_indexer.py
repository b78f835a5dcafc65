"""An index follows its store: writes, edits by hand, and parts that cannot be read or indexed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.memory.collection.errors import StoreAway
from runtime.memory.errors import StoreError
from runtime.memory.files.folder import Folder
from runtime.memory.indexing import change_feed
from runtime.memory.indexing.background import keep_index
from runtime.memory.indexing.entries import entries_of, group_of, item_of, place_of
from runtime.memory.indexing.file_watcher import FileWatcher
from runtime.memory.indexing.indexer import Indexer
from runtime.memory.item import Item, Provenance
from runtime.memory.markdown.store import MarkdownStore
from runtime.memory.records.store import RecordsStore
from runtime.memory.store_types import UNREADABLE, ItemLocation, Part
from runtime.search.embedding.hashing import HashingEmbedder
from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.errors import IndexFailed
from runtime.search.index import open_index
from runtime.search.index.index import AppendedEntries, Index, IndexChange
from tests.clocks import ManualClock, until
from tests.lanes import examples
from tests.runtime.memory.texts import fact, item, items


class CountingStore(MarkdownStore):
    """A store that counts the reads of each part."""

    def __init__(self, root: Path, clock: ManualClock) -> None:
        super().__init__(root, clock)
        self.reads: Counter[str] = Counter()

    async def read(self, part: Part) -> Sequence[tuple[Item, ItemLocation]]:
        self.reads[part.name] += 1
        return await super().read(part)


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[CountingStore]:
    opened = CountingStore(tmp_path / "agents", clock)
    yield opened
    await opened.close()


@pytest.fixture
async def index(tmp_path: Path) -> Index:
    return await open_index(None, tmp_path / "index.db", {})


@pytest.fixture
async def indexer(store: CountingStore, index: Index, clock: ManualClock) -> AsyncIterator[Indexer]:
    made = Indexer(store, index, clock)
    yield made
    await made.close()


async def found(indexer: Indexer, word: str, agent: str = "reviewer") -> dict[int, IndexEntry]:
    """Return the agent's entries that contain a word, by key."""
    keys = (await indexer.index.keyword([word], EntryFilter(agent=agent), 100)).keys.tolist()
    return {key: entry for key, entry in (await indexer.index.entries(keys)).items() if word in entry.text}


async def texts(indexer: Indexer, word: str) -> list[str]:
    """Return the texts of those entries."""
    return sorted(entry.text for entry in (await found(indexer, word)).values())


async def count(indexer: Indexer) -> int:
    return (await indexer.index.stats()).entries


async def test_what_is_added_to_a_log_is_put_without_reading_the_log(indexer: Indexer, store: CountingStore) -> None:
    await store.append([item("One")])
    await indexer.sync()
    before = store.reads.copy()
    for number in range(5):
        await store.append([item(f"Entry {number}")])
    await indexer.settle()
    assert await count(indexer) == 6
    report = await indexer.sync("reviewer")
    assert (report.read, store.reads) == (0, before)


async def test_two_indexes_over_one_store_both_get_its_appends(
    indexer: Indexer, store: CountingStore, clock: ManualClock
) -> None:
    beside = Indexer(store, await open_index(None, None, {}), clock)
    await store.append([item("One")])
    await indexer.settle()
    await beside.settle()
    assert (await count(indexer), await count(beside), store.reads) == (1, 1, {})
    await indexer.close()
    await store.append([item("Two")])
    await beside.settle()
    assert (await count(beside), store.reads) == (2, {})
    await beside.close()


async def test_entries_that_were_handed_over_stand_behind_those_that_were_read(
    indexer: Indexer, store: CountingStore
) -> None:
    await store.append([item("entry one"), item("entry two")])
    await indexer.forget()
    await indexer.sync()
    await store.append([item("entry three")])
    await indexer.settle()
    await store.append([item("entry four")])
    await indexer.settle()
    keys = {entry.text.split()[-1]: key for key, entry in (await found(indexer, "entry")).items()}
    order = [keys["one"], keys["two"], keys["three"], keys["four"]]
    neighbours = await indexer.index.neighbours(np.array(order))
    assert neighbours.before.tolist() == [0, *order[:-1]]
    assert neighbours.after.tolist() == [*order[1:], 0]


async def test_what_a_person_writes_is_put_and_what_they_delete_is_dropped(
    indexer: Indexer, store: CountingStore
) -> None:
    await store.append([fact("The user prefers dark mode"), fact("The API allows the user 100 requests")])
    await indexer.sync()
    memory = store.root / "reviewer" / "memory.md"
    memory.write_text(memory.read_text().replace("dark mode", "light mode"))
    report = await indexer.sync("reviewer")
    assert (report.changed, report.removed) == (1, 1)
    assert await texts(indexer, "user") == [
        "The API allows the user 100 requests",
        "The user prefers light mode",
    ]
    memory.write_text("# Agent Memory: reviewer\n")
    await indexer.sync("reviewer")
    assert await count(indexer) == 0


async def test_what_is_gone_from_the_store_is_gone_from_the_index(indexer: Indexer, store: CountingStore) -> None:
    await store.append([fact(), item(), item("Hello", agent_id="planner")])
    await indexer.sync()
    await store.remove("reviewer")
    report = await indexer.sync()
    assert (report.parts, report.removed) == (1, 2)
    assert await count(indexer) == 1


async def test_nothing_is_read_twice(indexer: Indexer, store: CountingStore) -> None:
    await store.append([fact(), item(), item("Hello", agent_id="planner")])
    assert (await indexer.sync()).read == 1  # The facts; the log entries were passed on by the store.
    assert await indexer.sync() == (3, 0, 0, 0, 0, ())
    assert max(store.reads.values()) == 1


async def test_a_part_whose_store_was_away_is_read_when_it_is_back(
    indexer: Indexer, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append([fact("Rust")])

    async def away(_: Part) -> Sequence[tuple[Item, ItemLocation]]:
        raise StoreAway("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(store, "read", away)
        assert "the database is away" in (await indexer.sync()).problems[0]
    assert (await indexer.sync()).problems == ()
    assert await texts(indexer, "Rust") == ["Rust"]
    assert indexer.unread == ()


async def test_a_part_that_cannot_be_read_is_said_and_the_others_go_on(indexer: Indexer, store: CountingStore) -> None:
    await store.append([fact(), fact("Rust", agent_id="planner")])
    await indexer.sync()
    memory = store.root / "reviewer" / "memory.md"
    good = memory.read_bytes()
    memory.unlink()
    memory.mkdir()
    await store.append([fact("Go", agent_id="planner")])
    report = await indexer.sync()
    assert len(report.problems) == 1
    assert str(memory) in report.problems[0]
    assert indexer.unread == report.problems
    assert await count(indexer) == 3, "what was read before is kept"
    reads = store.reads["reviewer/memory.md"]
    assert (await indexer.sync("reviewer")).problems == report.problems
    assert store.reads["reviewer/memory.md"] == reads, "it is read again when it changes"
    memory.rmdir()
    memory.write_bytes(good + b"- It is well again\n")
    assert (await indexer.sync("reviewer")).problems == ()
    assert (indexer.problems, await count(indexer)) == ((), 4)


@pytest.mark.parametrize("kind", [MarkdownStore, RecordsStore])
async def test_an_agent_whose_folder_cannot_be_opened_for_a_moment_keeps_its_entries(
    kind: type[MarkdownStore | RecordsStore],
    index: Index,
    tmp_path: Path,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = kind(tmp_path / "agents", clock)
    indexer = Indexer(store, index, clock)
    await store.append([item("One"), fact(), fact("Rust", agent_id="planner")])
    await indexer.sync()
    assert await count(indexer) == 3
    before, child = await index.parts(), Folder.child

    def refusing(self: Folder, name: str, *, create: bool = False) -> Folder | None:
        if name == "reviewer":
            raise StoreError("cannot open reviewer: too many open files")
        return child(self, name, create=create)

    monkeypatch.setattr(Folder, "child", refusing)
    report = await indexer.sync()
    assert (report.removed, report.problems) == (0, ("cannot open reviewer: too many open files",))
    assert (await index.parts(), await count(indexer)) == (before, 3)
    with pytest.raises(StoreError, match="too many"):
        await store.read(next(part for part in await store.parts() if part.revision == UNREADABLE))
    monkeypatch.undo()
    assert await indexer.sync() == (len(before), 0, 0, 0, 0, ())
    await indexer.close()
    await store.close()


@pytest.mark.parametrize("agent", ["reviewer", None])
async def test_what_cannot_be_read_is_no_problem_once_it_is_gone(
    indexer: Indexer, store: CountingStore, agent: str | None
) -> None:
    memory = store.root / "reviewer" / "memory.md"
    memory.mkdir(parents=True)
    assert len((await indexer.sync()).problems) == 1
    memory.rmdir()
    memory.parent.rmdir()
    await indexer.sync(agent)
    assert indexer.problems == ()


async def test_nobody_of_an_impossible_name_remembers_anything(indexer: Indexer) -> None:
    assert await indexer.sync("../reviewer") == (0, 0, 0, 0, 0, ())


async def test_progress_goes_over_all_agents_and_never_back(indexer: Indexer, store: CountingStore) -> None:
    await store.append([fact(agent_id=name) for name in ("a", "b", "c")])
    told: list[tuple[str, int, int]] = []
    await indexer.sync(progress=lambda *said: told.append(said))
    assert told[-1] == ("reading", 3, 3)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert {total for _, _, total in told} == {3}


async def test_an_index_that_is_emptied_is_built_again(indexer: Indexer, store: CountingStore) -> None:
    await store.append([fact(), item(), item("Two"), fact("Rust", agent_id="planner")])
    await indexer.sync()
    await indexer.forget("reviewer")
    assert await count(indexer) == 1
    assert (await indexer.sync("reviewer")).changed == 3
    await indexer.forget()
    assert await count(indexer) == 0
    assert (await indexer.sync()).changed == 4


async def test_when_too_much_waits_the_parts_are_read_instead(
    indexer: Indexer, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "MOST", 3)
    for number in range(5):
        await store.append([item(f"Entry {number}")])
    assert indexer.take_changed_agents() == {"reviewer"}
    report = await indexer.sync()
    assert (report.read, await count(indexer)) == (1, 5)


async def test_a_search_does_not_read_a_log_that_grows_all_the_time(indexer: Indexer, store: CountingStore) -> None:
    await store.append([item("First")])
    await indexer.sync()
    store.reads.clear()
    for number in range(30):
        await store.append([item(f"Entry {number}")])
        await indexer.sync("reviewer")
    assert not store.reads, "an append is handed over"
    writing = asyncio.create_task(_append(store, 30))
    while not writing.done():
        await indexer.sync("reviewer")
    await writing
    await indexer.sync("reviewer")
    assert await count(indexer) == 61
    assert len([each async for each in store.scan()]) == 61


async def _append(store: CountingStore, number: int) -> None:
    for at in range(number):
        await store.append([item(f"Later {at}")])


class Broken:
    """An index whose writing methods fail as long as `reason` is set."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.reason: str | None = "no space left on device"

    def __getattr__(self, name: str) -> object:
        return getattr(self._index, name)

    def _check(self) -> None:
        if self.reason:
            raise IndexFailed(f"the index cannot be written: {self.reason}")

    async def put(self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]) -> IndexChange:
        self._check()
        return await self._index.put(part, agent, revision, entries)

    async def append(self, appended: Sequence[AppendedEntries]) -> list[bool]:
        self._check()
        return await self._index.append(appended)


@pytest.fixture
async def broken(store: CountingStore, index: Index, clock: ManualClock) -> AsyncIterator[Indexer]:
    made = Indexer(store, Broken(index), clock)  # type: ignore[arg-type]
    yield made
    await made.close()


async def test_an_index_that_cannot_be_written_fails_no_write_and_catches_up(
    broken: Indexer, store: CountingStore
) -> None:
    written = await store.append([item("One"), fact()])
    assert len(written) == 2
    report = await broken.sync()
    assert report.problems == ("the index cannot be written: no space left on device",)
    assert broken.failure == report.problems[0]
    broken.index.reason = None  # type: ignore[attr-defined]
    assert (await broken.sync()).problems == ()
    assert (broken.problems, await count(broken)) == ((), 2)


async def test_the_background_tries_again_later_and_later(
    broken: Indexer, store: CountingStore, clock: ManualClock, tmp_path: Path
) -> None:
    # Of the store's own folder a change may be reported late, and is then tried at once.
    (tmp_path / "unchanged").mkdir()
    task = asyncio.create_task(keep_index(broken, FileWatcher(broken, tmp_path / "unchanged"), clock))
    await store.append([item("One")])
    await until(lambda: broken.failure is not None and clock.sleepers == 1)
    for seconds in (1, 2, 4):
        clock.advance(seconds - 0.1)
        await asyncio.sleep(0.01)
        tried = store.reads.copy()
        assert clock.sleepers == 1
        clock.advance(0.1)
        await until(lambda tried=tried: store.reads != tried and clock.sleepers == 1)  # type: ignore[misc]
    broken.index.reason = None  # type: ignore[attr-defined]
    clock.advance(8)
    await until(lambda: broken.failure is None)
    assert await count(broken) == 1
    task.cancel()


async def test_the_background_puts_what_is_handed_over_and_looks_at_what_was_touched(
    indexer: Indexer, store: CountingStore, clock: ManualClock
) -> None:
    task = asyncio.create_task(keep_index(indexer, FileWatcher(indexer, store.root), clock))
    await store.append([item("One")])
    await _until_counted(indexer, 1)
    memory = store.root / "reviewer" / "memory.md"
    memory.write_text("# Agent Memory: reviewer\n\n## Facts\n- By hand\n")
    indexer.mark_changed(["reviewer"])
    await _until_counted(indexer, 2)
    memory.unlink()
    await until(lambda: clock.sleepers == 1)
    clock.advance(301)  # The change was not noticed, and is found anyway.
    await _until_counted(indexer, 1)
    task.cancel()


async def test_entries_that_another_daemon_left_without_vectors_are_embedded_at_the_next_comparison(
    indexer: Indexer, store: CountingStore, clock: ManualClock
) -> None:
    embedder = HashingEmbedder(64)
    await indexer.queue.use(embedder)
    tasks = [asyncio.create_task(keep_index(indexer, None, clock)), asyncio.create_task(indexer.queue.keep())]
    await store.append([item("One")])
    await _until_embedded(indexer, 1)
    await until(lambda: clock.sleepers == 1)
    for model in ("another", embedder.model):
        await indexer.index.use_model(model, 64)
    assert (await indexer.index.stats()).embedded == 0
    async with asyncio.timeout(30):
        while (await indexer.index.stats()).embedded != 1:
            clock.advance(31)
            await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()


async def _until_embedded(indexer: Indexer, wanted: int) -> None:
    async with asyncio.timeout(30):
        while (await indexer.index.stats()).embedded != wanted:
            await asyncio.sleep(0.01)


async def _until_counted(indexer: Indexer, wanted: int) -> None:
    async with asyncio.timeout(30):
        while await count(indexer) != wanted:
            await asyncio.sleep(0.01)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items().map(lambda found: found.with_fields(memory_id="8f7c")), st.none() | st.integers(1, 9))
def test_an_entry_carries_the_whole_of_its_item(found: Item, line: int | None) -> None:
    part = Part("reviewer/memory.md", found.agent_id, "1")
    place = None if line is None else ItemLocation("/agents/reviewer/memory.md", line)
    (entry,) = entries_of(part, [(found, place)])
    assert item_of(entry) == found
    assert place_of(entry) == place
    assert entry.author == found.provenance.author


def test_neighbours_are_of_one_session_or_else_of_one_log() -> None:
    part = Part("reviewer/logs/2026-02-14.md", "reviewer", "1")
    assert group_of(part, item()) == f"{part.name}/'owner'"
    assert group_of(part, item(provenance=Provenance(session_id="s1"))) == "reviewer/'owner'/s1"
    assert len({group_of(part, item(user_id=user)) for user in ("ada", "bob")}) == 2
    assert group_of(part, fact()) == ""
    assert group_of(part, fact(provenance=Provenance(session_id="s1"))) == "reviewer/'owner'/s1"
