"""What was said in threads is found like every other item, by its user, and is gone when it is deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.memory.errors import Unsupported
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.item import Item
from runtime.memory.open_memory import OpenMemory
from runtime.memory.recall.message_items import SUMMARY, TOKENS, place_of
from runtime.memory.recall.message_parts import BEGINNING
from runtime.memory.recall.store import RecallStore
from runtime.search.embedding.hashing import HashingEmbedder
from runtime.search.entry import EntryFilter
from runtime.search.question import USER, Question
from runtime.threads.content import EventPart, TextPart, ToolOutputPart
from runtime.threads.messages import Messages
from runtime.threads.summaries import NewSummary, Summaries
from runtime.threads.thread import TOGETHER, Thread, Threads
from runtime.token_counter import estimate
from tests.clocks import ManualClock
from tests.runtime.memory.texts import WHEN, fact
from tests.runtime.threads.thread_runs import many_threads, said, statements


class Recall:
    """The threads of a database, and the search over them."""

    def __init__(self, database: Database, memory: OpenMemory, store: RecallStore, clock: ManualClock) -> None:
        self.database, self.memory, self.store, self.clock = database, memory, store, clock
        self.threads = Threads(database, clock)
        self.messages = Messages(database, clock)
        self.summaries = Summaries(database, clock)
        self.threads.on_change = self.messages.on_change = self.summaries.on_change = store.note_change

    async def find(self, text: str, **wanted: str | None) -> list[Item]:
        found = await self.memory.search(Question(text=text, now=WHEN, limit=20, wanted=EntryFilter(**wanted)))  # type: ignore[arg-type]
        # Without the neighbours of the items with this word.
        return [hit.item for hit in found.hits if text in hit.item.text]

    async def texts(self, text: str, **wanted: str | None) -> list[str]:
        return sorted(item.text for item in await self.find(text, **wanted))

    async def items(self, agent: str | None = None) -> list[Item]:
        return [item for part in await self.store.parts(agent) for item, _ in await self.store.read(part)]


@asynccontextmanager
async def recalling(database: Database, folder: Path, clock: ManualClock) -> AsyncIterator[Recall]:
    """Yield the search over the threads of a database, with its index in `folder`."""
    store = RecallStore(database, clock)
    indexer = await open_indexer(store, None, folder, clock, database=database)
    block = Memory(name="recall", store=Variant(name="recall"))
    memory = OpenMemory(block, indexer, HashingEmbedder(64), folder=None, clock=clock)
    await memory.activate()
    try:
        yield Recall(database, memory, store, clock)
    finally:
        await memory.close()


@pytest.fixture
async def recall(database: Database, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Recall]:
    async with recalling(database, tmp_path / "index", clock) as opened:
        yield opened


@pytest.fixture
async def thread(recall: Recall) -> Thread:
    return await recall.threads.conversation("owner", "helper")


def stored(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file()).lower()


def names(items: Sequence[Item]) -> list[str]:
    return [item.memory_id for item in items]


async def test_a_message_is_found_with_its_thread_and_place(recall: Recall, thread: Thread) -> None:
    await recall.messages.append(thread, [said("hello"), said("the okapi sleeps", role="assistant")])
    [item] = await recall.find("okapi")
    assert (item.user_id, item.agent_id, item.project_id) == ("owner", "helper", thread.id)
    assert item.provenance.author == "helper"
    assert place_of(item)[:2] == (thread.id, 1)


async def test_a_message_is_of_the_user_of_the_agent_or_of_nobody(recall: Recall, thread: Thread) -> None:
    output = said("", role="tool", kind="tool_output", parts=(ToolOutputPart("c", "read", "It is an okapi."),))
    await recall.messages.append(thread, [said("What is this?"), output, said("An okapi.", role="assistant")])
    assert [item.provenance.author for item in await recall.items()] == [USER, None, "helper"]


async def test_a_message_far_back_in_a_long_thread_is_found(recall: Recall, thread: Thread) -> None:
    await recall.messages.append(thread, [said(f"note w{number}w") for number in range(1500)])
    for position in (0, BEGINNING - 1, BEGINNING, 511, 512, 1499):
        [item] = await recall.find(f"w{position}w")
        assert place_of(item)[:2] == (thread.id, position)
    assert len(await recall.items()) == 1500


async def test_a_new_message_of_a_known_thread_is_found(recall: Recall, thread: Thread) -> None:
    for number in range(BEGINNING + 4):
        await recall.messages.append(thread, [said(f"note w{number}w")])
        assert await recall.texts(f"w{number}w", agent="helper") == [f"note w{number}w"]


async def test_thoughts_calls_and_events_are_not_found(recall: Recall, thread: Thread) -> None:
    hidden = [
        said("okapi", kind="reasoning"),
        said("okapi", kind="tool_call"),
        said("", kind="event", parts=(EventPart("e", "okapi"),)),
    ]
    await recall.messages.append(thread, [*hidden, said("another okapi")])
    assert await recall.texts("okapi") == ["another okapi"]


async def test_a_long_message_is_found_by_each_of_its_chunks(recall: Recall, thread: Thread) -> None:
    words = [" ".join(f"{sentence}word{number}" for number in range(12)) + "." for sentence in range(600)]
    await recall.messages.append(thread, [said(" ".join(words)), said("漢字。" * 2000)])
    found = await recall.items()
    assert all(estimate(item.text) <= TOKENS for item in found)
    assert len(set(names(found))) == len(found) > 20
    [item] = await recall.find("599word11")
    assert place_of(item)[:2] == (thread.id, 0)


async def test_outputs_that_repeat_what_is_stored_here_are_not_found(recall: Recall, thread: Thread) -> None:
    recall.store.quoting = frozenset({"archival_search"})
    for name in ("archival_search", "weather_today"):
        output = ToolOutputPart("c", name, f"an okapi by {name}")
        await recall.messages.append(thread, [said("", role="tool", kind="tool_output", parts=(output,))])
    assert await recall.texts("okapi") == ["an okapi by weather_today"]


async def test_the_ends_of_a_long_output_are_found(recall: Recall, thread: Thread) -> None:
    text = f"okapi {'filler ' * 100_000} quetzal"
    output = ToolOutputPart("c", "read", text)
    await recall.messages.append(thread, [said("", role="tool", kind="tool_output", parts=(output,))])
    assert len(await recall.items()) < 20
    assert await recall.find("okapi")
    assert await recall.find("quetzal")


async def test_a_summary_is_found_and_tagged(recall: Recall, thread: Thread) -> None:
    await recall.messages.append(thread, [said("hello")])
    new = NewSummary(first_position=0, last_position=0, message_count=1, text="They met an okapi.", tokens=5)
    summary = await recall.summaries.append(thread, new)
    [item] = await recall.find("okapi", agent="helper")
    assert item.tags == (SUMMARY,)
    assert place_of(item) == (thread.id, None, summary.id)


async def test_a_secret_in_a_message_is_not_in_its_items(recall: Recall, thread: Thread) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0" * 2
    await recall.messages.append(thread, [said(f"the token is {secret[:40]}")])
    [item] = await recall.items()
    assert secret[:40] not in item.text


async def test_the_messages_of_other_users_are_not_found(recall: Recall, thread: Thread) -> None:
    other = await recall.threads.main("ada", "helper")
    await recall.messages.append(thread, [said("the okapi of the owner")])
    await recall.messages.append(other, [said("the okapi of ada")])
    assert await recall.texts("okapi", user="ada") == ["the okapi of ada"]
    assert await recall.texts("okapi", user="owner") == ["the okapi of the owner"]
    assert await recall.texts("okapi", project=other.id) == ["the okapi of ada"]


async def test_what_is_said_about_a_subject_is_told_from_the_rest(recall: Recall, thread: Thread) -> None:
    secret = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4"
    for subject in ("42", secret):
        about = await recall.threads.for_subject("owner", "helper", subject)
        await recall.messages.append(about, [said(f"the okapi of {subject}")] * (BEGINNING + 1))
    await recall.messages.append(thread, [said("the okapi of all")])
    items = await recall.items()
    assert {item.subject for item in items if item.text == "the okapi of 42"} == {"42"}
    assert await recall.texts("okapi", subject=None) == ["the okapi of all"]
    assert secret not in repr(items)


async def test_a_deleted_message_is_gone_with_its_vector(recall: Recall, thread: Thread) -> None:
    await recall.messages.append(thread, [said("the okapi sleeps"), said("the okapi wakes")])
    assert len(await recall.find("okapi")) == 2
    await recall.messages.delete(thread, 0)
    assert await recall.texts("okapi", agent="helper") == ["the okapi wakes"]
    stats = await recall.memory.index_stats()
    assert (stats.entries, stats.embedded) == (1, 1)


@pytest.mark.parametrize("others", [0, 1])
async def test_a_deleted_thread_is_gone_with_its_vectors(recall: Recall, thread: Thread, others: int) -> None:
    kept = [await recall.threads.conversation("owner", "helper") for _ in range(others)]
    for each in (thread, *kept):
        await recall.messages.append(each, [said("the okapi sleeps")] * (BEGINNING + 1))
    await recall.find("okapi", agent="helper")
    await recall.threads.delete(thread)
    await recall.find("okapi", agent="helper")
    stats = await recall.memory.index_stats()
    assert stats.entries == stats.embedded == others * (BEGINNING + 1)


async def test_the_messages_of_a_removed_user_are_gone(recall: Recall, thread: Thread) -> None:
    other = await recall.threads.main("ada", "helper")
    await recall.messages.append(thread, [said("the okapi of the owner")])
    await recall.messages.append(other, [said("the okapi of ada")])
    assert len(await recall.find("okapi")) == 2
    assert await recall.memory.forget_user("ada") == (1, ())
    assert await recall.texts("okapi") == ["the okapi of the owner"]
    assert (await recall.memory.index_stats()).entries == 1


async def test_what_another_process_wrote_or_deleted_is_noticed(recall: Recall, thread: Thread) -> None:
    await recall.messages.append(thread, [said("hello")])
    assert len(await recall.store.parts("helper")) == 1
    elsewhere = Messages(recall.database, recall.clock)
    await elsewhere.append(thread, [said("the okapi sleeps")])
    assert await recall.texts("okapi") == ["the okapi sleeps"]
    await elsewhere.append(thread, [said("the okapi wakes")])
    assert len(await recall.texts("okapi", agent="helper")) == 2


async def test_nothing_is_read_or_embedded_again_after_a_restart(
    database: Database, tmp_path: Path, clock: ManualClock
) -> None:
    async with recalling(database, tmp_path, clock) as recall:
        thread = await recall.threads.main("owner", "helper")
        await recall.messages.append(thread, [said(f"note w{number}w") for number in range(600)])
        await recall.find("w5w")
    async with recalling(database, tmp_path, clock) as recall:
        report = await recall.memory.sync()
        assert (report.parts, report.read) == (3, 0)
        assert await recall.texts("w599w") == ["note w599w"]


async def test_all_is_read_again_where_other_items_are_made_of_messages(
    database: Database, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with recalling(database, tmp_path, clock) as recall:
        thread = await recall.threads.main("owner", "helper")
        await recall.messages.append(thread, [said(f"note {number}") for number in range(BEGINNING + 1)])
        new = NewSummary(first_position=0, last_position=0, message_count=1, text="They met an okapi.", tokens=5)
        await recall.summaries.append(thread, new)
        await recall.memory.sync()
    monkeypatch.setattr("runtime.memory.recall.store._ITEMS", 0)
    async with recalling(database, tmp_path, clock) as recall:
        report = await recall.memory.sync()
        assert (report.parts, report.read) == (3, 3)


async def test_no_file_has_a_word_of_a_message(tmp_path: Path, clock: ManualClock) -> None:
    database = await Database.open(tmp_path / "symbiont.db", MasterKey(b"m" * 32))
    try:
        async with recalling(database, tmp_path / "index", clock) as recall:
            thread = await recall.threads.main("owner", "helper")
            await recall.messages.append(thread, [said("Alice keeps the okapi combination")])
            assert await recall.find("okapi")
            assert all(word not in stored(tmp_path) for word in (b"okapi", b"combin"))
    finally:
        await database.close()
    assert all(word not in stored(tmp_path) for word in (b"okapi", b"combin"))


async def test_a_change_in_one_of_many_threads_lists_few_rows_again(recall: Recall) -> None:
    await many_threads(recall.database, 100 * TOGETHER, length=0)
    thread = await recall.threads.main("owner", "helper")
    await recall.messages.append(thread, [said("hello")])
    await recall.memory.sync()
    await recall.messages.append(thread, [said("the okapi sleeps")])
    with statements() as recorded:
        report = await recall.memory.sync()
    assert (report.parts, report.read, report.changed) == (1, 1, 1)
    asked = [statement for statement, _ in recorded if "FROM threads" in statement]
    assert asked
    keyed = ("threads.id IN", "threads.id =", "threads.part IN", "threads.part =")
    assert all(any(key in each for key in keyed) for each in asked)


async def test_a_store_of_threads_takes_no_items(recall: Recall) -> None:
    with pytest.raises(Unsupported, match="nothing can be appended"):
        await recall.store.append([fact("a")])


async def test_its_items_are_scanned_in_order_of_time(recall: Recall, thread: Thread) -> None:
    for text in ("first", "second", "third"):
        await recall.messages.append(thread, [said("", parts=(TextPart(text),))])
        recall.clock.advance(1)
    assert [item.text async for item in recall.store.scan()] == ["first", "second", "third"]
    assert await recall.store.agents() == ("helper",)
    assert (await recall.store.stats("helper")).agents == 1
