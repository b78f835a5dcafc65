"""An open memory: one search over all items, whichever process wrote them and whichever part fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dslc.blocks.memory import Memory, MemorySearch
from dslc.blocks.variant import Variant
from runtime.errors import UsageError
from runtime.memory import open_memory as module
from runtime.memory.errors import Unsupported
from runtime.memory.item import Item, Provenance
from runtime.memory.open_memory import FoundItems, OpenMemory
from runtime.search.embedding import default_embedding
from runtime.search.embedding.embedder import Embedder
from runtime.search.embedding.hashing import HashingEmbedder
from runtime.search.engine import SearchAnswer
from runtime.search.entry import EntryFilter
from runtime.search.errors import EmbeddingMismatch, EmbeddingUnavailable, IndexFailed
from runtime.search.question import Question
from tests.clocks import ManualClock
from tests.runtime.memory import opened as opened_module
from tests.runtime.memory.opened import open_memory
from tests.runtime.memory.texts import WHEN, fact, item

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HASHING = Variant(name="hashing")


def block(**fields: Any) -> Memory:
    return Memory(name="notes", path="agents", **({"embedding": HASHING} | fields))


@pytest.fixture
async def memory(tmp_path: Path, clock: ManualClock) -> AsyncIterator[OpenMemory]:
    opened = await open_memory(block(), tmp_path, index_folder=tmp_path / "index", clock=clock)
    yield opened
    await opened.close()


async def ask(memory: OpenMemory, text: str, agent: str | None = "reviewer", **more: Any) -> FoundItems:
    return await memory.search(Question(text=text, now=WHEN, wanted=EntryFilter(agent=agent), **more))


def texts(found: FoundItems) -> list[str]:
    return [hit.item.text for hit in found.hits]


async def test_what_was_saved_is_found_with_all_that_is_known_of_it(memory: OpenMemory) -> None:
    known = Provenance(author="Ada", session_id="s1", confidence=0.9, sources=("a.md",), git_commit="a109d56")
    (saved,) = await memory.store.append(
        [fact("The staging server is called walnut", tags=("host",), provenance=known, project_id="shop")]
    )
    found = await ask(memory, "staging server")
    assert found.hits[0].item == saved
    assert found.hits[0].score == pytest.approx(sum(found.hits[0].parts.values()))


async def test_a_hit_says_where_it_stands_now(memory: OpenMemory) -> None:
    await memory.store.append([fact("First"), fact("The walnut"), item("The hazel")])
    for word in ("walnut", "hazel"):
        place = (await ask(memory, word)).hits[0].place
        assert place is not None
        assert place.line is not None
        assert word in "".join(Path(place.file).read_text().splitlines()[place.line - 1 : place.line + 1])
    assert memory.folder is not None
    file = memory.folder / "reviewer/memory.md"
    file.write_text("\n\n\n" + file.read_text())
    place = (await ask(memory, "walnut")).hits[0].place
    assert place is not None
    assert place.line is not None
    assert "walnut" in Path(place.file).read_text().splitlines()[place.line - 1]


async def test_a_hit_whose_file_cannot_be_read_any_more_says_no_place(memory: OpenMemory) -> None:
    await memory.store.append([fact("The walnut")])
    await ask(memory, "walnut")
    assert memory.folder is not None
    file = memory.folder / "reviewer/memory.md"
    file.unlink()
    file.mkdir()
    found = await ask(memory, "walnut")
    assert [(hit.item.text, hit.place) for hit in found.hits] == [("The walnut", None)]
    assert str(file) in found.notes[0]
    assert memory.unread == found.notes[:1]


async def test_one_agents_memories_are_not_anothers(memory: OpenMemory) -> None:
    await memory.store.append([fact("The walnut", agent_id="planner"), fact("The hazel")])
    assert texts(await ask(memory, "walnut or hazel")) == ["The hazel"]
    assert texts(await ask(memory, "walnut or hazel", "planner")) == ["The walnut"]
    assert sorted(texts(await ask(memory, "walnut or hazel", None))) == ["The hazel", "The walnut"]
    for nobody in ("unheard-of", "../planner", ""):
        assert (await ask(memory, "walnut", nobody)).hits == ()


async def test_a_search_of_a_command_tells_how_far_it_is(memory: OpenMemory) -> None:
    await memory.store.append([fact(f"The walnut {number}") for number in range(5)])
    told: list[tuple[str, int, int]] = []
    await memory.search(Question(text="walnut", now=WHEN), lambda *said: told.append(said))
    assert {what for what, _, _ in told} == {"reading", "embedding"}
    assert {total for what, _, total in told if what == "embedding"} == {5}


async def test_the_declared_weights_are_taken_where_none_are_given(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float | None, float | None, int]] = []

    async def searched(index: object, embedder: object, question: Question, **_: object) -> SearchAnswer:
        asked.append((question.vector_weight, question.keyword_weight, question.limit))
        return SearchAnswer((), ())

    monkeypatch.setattr(module, "search", searched)
    declared = block(search=MemorySearch(vector_weight=0.5, keyword_weight=0.5))
    opened = await open_memory(declared, tmp_path, index_folder=None, clock=clock)
    await opened.search(Question(text="walnut", now=WHEN))
    await opened.search(Question(text="walnut", now=WHEN, vector_weight=0.0, keyword_weight=1.0, limit=3))
    assert asked == [(0.5, 0.5, 10), (0.0, 1.0, 3)]
    await opened.close()


async def test_a_search_of_a_command_embeds_for_some_seconds_and_no_longer(
    memory: OpenMemory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.store.append([fact(f"Fact {number}") for number in range(200)])
    embedder = memory.embedder
    assert embedder is not None
    embed = embedder.embed

    async def slowly(given: Sequence[str]) -> NDArray[np.float32]:
        clock.advance(module.CATCH_UP_SECONDS / 2)
        return await embed(given)

    monkeypatch.setattr(embedder, "embed", slowly)
    found = await ask(memory, "Fact 7")
    done = (await memory.index_stats()).embedded
    assert 0 < done < 200
    assert any(str(200 - done) in note for note in found.notes)
    assert await memory.embed() == 200 - done
    assert (await ask(memory, "Fact 7")).notes == ()


async def test_compaction_goes_by_the_declared_retention_and_is_searched_at_once(
    tmp_path: Path, clock: ManualClock
) -> None:
    opened = await open_memory(block(retention=timedelta(days=10)), tmp_path, index_folder=None, clock=clock)
    old = WHEN - timedelta(days=11)
    await opened.store.append([item("Review\n- [fact] The cache is called pond", timestamp=old), item("Today")])
    assert (await ask(opened, "pond")).hits[0].item.memory_type == "episodic"
    done = await opened.compact("reviewer", WHEN)
    assert done[:2] == (1, 1)
    hit = (await ask(opened, "pond")).hits[0]
    assert (hit.item.memory_type, hit.item.text) == ("semantic", "The cache is called pond")
    assert (await opened.index_stats()).entries == 2
    await opened.close()


async def test_what_is_removed_is_not_found_any_more(memory: OpenMemory) -> None:
    await memory.store.append([fact("The walnut"), fact("The walnut", agent_id="planner")])
    await memory.sync()
    assert await memory.remove("reviewer")
    assert (await ask(memory, "walnut")).hits == ()
    assert (await memory.index_stats()).entries == 1
    assert not await memory.remove("reviewer")


async def test_reindex_builds_all_or_one_agents_again_with_vectors(memory: OpenMemory) -> None:
    await memory.store.append([fact("The walnut"), fact("The hazel", agent_id="planner")])
    told: list[tuple[str, int, int]] = []
    report = await memory.reindex(progress=lambda *said: told.append(said))
    assert (report.parts, report.read, report.changed, report.embedded, report.problems) == (2, 2, 2, 2, ())
    assert {what for what, _, _ in told} == {"reading", "embedding"}
    report = await memory.reindex("planner")
    assert (report.changed, report.embedded) == (1, 1)
    assert (await memory.index_stats()).embedded == 2


async def test_reindex_keeps_the_embedding_that_a_reload_has_put_in_place_of_its_own(memory: OpenMemory) -> None:
    await memory.store.append([fact("The walnut")])
    newer = HashingEmbedder(128)
    await memory.indexer.queue.use(newer)
    assert (await memory.reindex()).embedded == 1
    assert (await memory.index_stats())[2:4] == (newer.model, 128)


async def test_an_index_outlives_the_process_and_only_what_changed_is_read(tmp_path: Path, clock: ManualClock) -> None:
    async def opened() -> OpenMemory:
        return await open_memory(block(), tmp_path, index_folder=tmp_path / "index", clock=clock)

    first = await opened()
    await first.store.append([fact("The walnut"), fact("The hazel", agent_id="planner")])
    await ask(first, "walnut", None)
    await first.close()
    second = await opened()
    assert await second.sync() == (2, 0, 0, 0, 0, ())
    await second.store.append([fact("The oak")])
    await second.close()
    third = await opened()
    assert (await third.sync()).read == 1
    assert (await third.index_stats()).entries == 3
    assert (tmp_path / "index").stat().st_mode & 0o777 == 0o700
    await third.close()


async def test_an_index_that_cannot_be_made_is_kept_in_memory_and_that_is_said(
    tmp_path: Path, clock: ManualClock
) -> None:
    (tmp_path / "index").write_text("in the way")
    opened = await open_memory(block(), tmp_path, index_folder=tmp_path / "index", clock=clock)
    await opened.store.append([fact("The walnut")])
    assert texts(await ask(opened, "walnut")) == ["The walnut"]
    assert opened.index_problem is not None
    assert "in memory" in opened.index_problem
    assert opened.problems == (opened.index_problem,)
    await opened.close()


async def test_an_index_that_cannot_be_written_is_noted_and_what_it_holds_is_searched(
    memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.store.append([fact("The walnut")])
    await ask(memory, "walnut")

    async def full(*_: object) -> Any:
        raise IndexFailed("the disk is full")

    monkeypatch.setattr(memory.indexer.index, "put", full)
    monkeypatch.setattr(memory.indexer.index, "append", full)
    await memory.store.append([fact("The hazel")])
    found = await ask(memory, "walnut")
    assert texts(found) == ["The walnut"]
    assert found.notes[0] == "the disk is full"
    assert found.hits[0].place is not None, "the store itself says where"
    monkeypatch.undo()
    assert len((await ask(memory, "walnut or hazel")).hits) == 2
    assert memory.problems == ()


class Failing(HashingEmbedder):
    """An embedding that raises the given error."""

    error: Exception | None = None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.error is not None:
            raise self.error
        return await super().embed(texts)


@pytest.mark.parametrize(
    "error", [EmbeddingUnavailable("ollama does not answer"), EmbeddingMismatch("4 numbers came, 256 were declared")]
)
async def test_an_embedding_that_fails_leaves_the_keywords(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    embedder = Failing(256)

    async def opening(*_: object) -> Failing:
        return embedder

    monkeypatch.setattr(opened_module, "open_embedding", opening)
    opened = await open_memory(block(), tmp_path, index_folder=None, clock=clock)
    await opened.store.append([fact("The walnut"), fact("The hazel")])
    embedder.error = error
    found = await ask(opened, "walnut")
    assert texts(found) == ["The walnut"]
    assert any(str(error) in note for note in found.notes)
    report = await opened.reindex()
    assert (report.changed, report.embedded) == (2, 0)
    assert str(error) in report.problems[-1]
    await opened.close()


class Changing(Embedder):
    """An embedding whose dimension is known from responses only, as over HTTP."""

    name = model = "changing"
    answers = 8
    known: int | None = None

    @property
    def dimension(self) -> int | None:
        return self.known

    def renew(self) -> None:
        self.known = None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.known not in {None, self.answers}:
            raise EmbeddingMismatch(f"a vector of {self.answers} numbers, not of {self.known}")
        self.known = self.answers
        return (await HashingEmbedder(256).embed(texts))[:, : self.answers]


async def test_reindex_takes_a_model_of_another_dimension_as_it_is(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = Changing()

    async def opening(*_: object) -> Changing:
        return embedder

    monkeypatch.setattr(opened_module, "open_embedding", opening)
    opened = await open_memory(block(), tmp_path, index_folder=None, clock=clock)
    await opened.store.append([fact("The walnut"), fact("The hazel", agent_id="planner")])
    assert (await opened.reindex()).embedded == 2
    embedder.answers = 16
    await opened.store.append([fact("The oak")])
    (note, *_) = (await ask(opened, "oak")).notes
    assert "16 numbers, not of 8" in note
    # One agent is enough: vectors of two dimensions are never stored together.
    report = await opened.reindex("reviewer")
    assert (report.embedded, report.problems) == (3, ())
    assert (await ask(opened, "oak")).notes == ()
    await opened.close()


async def test_a_memory_whose_embedding_cannot_be_opened_runs_by_keyword(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def absent(*_: object) -> None:
        raise UsageError("the package onnxruntime is not installed", hint="pip install onnxruntime")

    monkeypatch.setattr(opened_module, "open_embedding", absent)
    opened = await open_memory(block(embedding=Variant(name="local")), tmp_path, index_folder=None, clock=clock)
    await opened.store.append([fact("The walnut"), fact("The hazel")])
    assert opened.embedding is None
    found = await ask(opened, "walnut")
    assert texts(found) == ["The walnut"]
    why = "the package onnxruntime is not installed (pip install onnxruntime)"
    assert found.notes == (f"searched by keyword only: the embedding local cannot be used: {why}",)
    (problem,) = opened.problems
    assert opened.embedding_problem == problem
    assert "local" in problem
    assert "pip install onnxruntime" in problem
    await opened.close()


async def test_append_only_memories_are_never_deleted_or_compacted(tmp_path: Path, clock: ManualClock) -> None:
    opened = await open_memory(block(store=Variant(name="records")), tmp_path, index_folder=None, clock=clock)
    (saved,) = await opened.store.append([fact("The walnut", provenance=Provenance(task="Name it"))])
    hit = (await ask(opened, "walnut")).hits[0]
    assert hit.item == saved
    assert hit.place is not None
    assert Path(hit.place.file).is_file()
    for refused in (opened.remove("reviewer"), opened.compact("reviewer", datetime.now(UTC))):
        with pytest.raises(Unsupported):
            await refused
    assert opened.problems == ()
    await opened.close()


async def test_the_real_model_finds_what_is_meant(tmp_path: Path, clock: ManualClock) -> None:
    if default_embedding() is None:
        pytest.skip("the extra local is not installed")
    opened = await open_memory(
        block(embedding=Variant(name="local")), tmp_path, index_folder=tmp_path / "index", clock=clock
    )
    assert opened.embedding == "local"
    said = ["She adopted a kitten last spring", "The build runs on two machines", "Invoices are sent on Mondays"]
    await opened.store.append([fact(text) for text in said])
    found = await ask(opened, "Which pet does she have?")
    assert found.hits[0].item.text == said[0]
    assert found.notes == ()
    await opened.close()


async def test_a_search_does_not_wait_long_for_an_index_that_is_being_built(
    memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.store.append([fact("The walnut")])
    await ask(memory, "walnut")
    await memory.store.append([fact("The hazel")])
    monkeypatch.setattr(module, "CATCH_UP_SECONDS", 0.05)
    monkeypatch.setattr(memory.indexer, "in_background", True)
    go_on = asyncio.Event()
    put = memory.indexer.index.put

    async def slow(*given: Any) -> Any:
        await go_on.wait()
        return await put(*given)

    monkeypatch.setattr(memory.indexer.index, "put", slow)
    found = await ask(memory, "walnut")
    assert texts(found) == ["The walnut"]
    assert "still being built" in found.notes[0]
    go_on.set()
    await memory.finish()
    assert texts(await ask(memory, "hazel"))[0] == "The hazel"
    monkeypatch.undo()


async def test_searches_at_the_same_time_all_see_what_was_written_before_them(memory: OpenMemory) -> None:
    async def write_and_ask(number: int) -> bool:
        (saved,) = await memory.store.append([_entry(number)])
        found = await ask(memory, f"walnut{number}")
        return saved.memory_id in [hit.item.memory_id for hit in found.hits]

    assert all(await asyncio.gather(*(write_and_ask(number) for number in range(20))))


def _entry(number: int) -> Item:
    return item(f"Entry walnut{number}")
