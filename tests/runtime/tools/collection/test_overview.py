"""`get-collections`, `new-collection` and `metrics`: the collections, their owners and their dimensions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.identity.caller import Caller
from runtime.memory.item import Item
from runtime.models.calls.call import CallOwner
from runtime.search.embedding.hashing import HashingEmbedder
from runtime.search.errors import EmbeddingMismatch, EmbeddingUnavailable, IndexFailed
from runtime.tools.collection.access import default_memory
from tests.cases import each_case
from tests.runtime.api.app import NOTES
from tests.runtime.tools.asking import ADA, BOB, OWNER_CALLER, READER, Asked, asking, collection, line

BEGIN = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asked]:
    async with asking(tmp_path, collection("notes"), collection("archive")) as opened:
        yield opened


async def names(ask: Asked, caller: Any = ADA) -> dict[str, int]:
    return {each["name"]: each["items"] for each in (await ask("get-collections", caller))["collections"]}


async def test_every_collection_is_listed_with_how_it_is_searched(tmp_path: Path, database: Database) -> None:
    async with asking(tmp_path, collection("notes"), database=database) as ask:
        await ask("push", text="One", memory_type="episodic")
        await ask("push", text="Two")
        assert (await ask("get-collections"))["collections"] == [
            {
                "name": "notes",
                "memory": "notes",
                "default": True,
                "items": 2,
                "by_type": {"episodic": 1, "semantic": 1, "procedural": 0},
                "embedding": "hashing",
                "model": HashingEmbedder(64).model,
                "dimension": 64,
                "index": "embedded",
                "state": "ready",
            }
        ]


async def test_a_new_collection_is_empty_there_and_made_once(ask: Asked) -> None:
    made = await ask("new-collection", name="research")
    assert made == {
        "name": "research",
        "memory": "archive",
        "created": True,
        "embedding": "hashing",
        "dimension": 64,
        "notes": [],
    }
    assert (await ask("new-collection", name="research"))["created"] is False
    assert await names(ask) == {"archive": 0, "research": 0, "notes": 0}
    await ask("push", text="One", collection="research")
    assert await names(ask) == {"archive": 0, "research": 1, "notes": 0}


async def test_what_a_program_declares_is_there_already(ask: Asked) -> None:
    made = await ask("new-collection", name="notes")
    assert (made["created"], made["memory"]) == (False, "notes")


async def test_a_collection_that_is_in_another_memory_is_there_already(ask: Asked) -> None:
    await ask("memory_write", agent="reviewer", text="What the reviewer learned", memory="notes")
    made = await ask("new-collection", name="reviewer")
    assert (made["created"], made["memory"]) == (False, "notes")
    assert (await names(ask))["reviewer"] == 1


async def test_collections_of_one_name_of_two_users_are_two(ask: Asked) -> None:
    for caller in (ADA, BOB):
        assert (await ask("new-collection", caller, name="mine"))["created"] is True
        await ask("push", caller, text="The same", collection="mine")
    assert (await names(ask))["mine"] == (await names(ask, BOB))["mine"] == 1
    assert (await names(ask, OWNER_CALLER))["mine"] == 2


@each_case("name", ["", "a b", "../x", "ä", "x" * 65, "a/b", ".", "..", 5, None])
async def test_a_name_that_is_none_is_refused_with_one_that_is(ask: Asked, name: Any) -> None:
    failure = await ask.failure("new-collection", name=name)
    assert (failure.code, failure.field) == ("invalid_params", "name")
    assert failure.example == {"name": "research"}


async def test_a_dimension_that_is_not_the_embeddings_is_refused_with_both_numbers(ask: Asked) -> None:
    failure = await ask.failure("new-collection", name="research", dimension=768)
    assert (failure.code, failure.field, failure.example) == ("invalid_params", "dimension", {"dimension": 64})
    for said in ("768", "64", "hashing", "EMBEDDING_DIMENSION"):
        assert said in line(failure)
    assert "research" not in await names(ask)
    assert (await ask("new-collection", name="research", dimension=64))["dimension"] == 64


@each_case("dimension", [0, -1, 65537, "64", 1.5, True])
async def test_a_dimension_that_is_none_is_refused(ask: Asked, dimension: Any) -> None:
    failure = await ask.failure("new-collection", name="research", dimension=dimension)
    assert (failure.code, failure.field) == ("invalid_params", "dimension")


class Telling:
    """An embedding whose dimension is known only from a response, or that does not respond."""

    name, model = "ollama", "ollama/nomic:latest"

    def __init__(self, answer: int | Exception) -> None:
        self.dimension: int | None = None
        self.answer = answer

    async def embed(self, texts: list[str]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        self.dimension = self.answer
        return [[0.0] * self.answer for _ in texts]

    async def embed_question(self, text: str, *, owner: CallOwner) -> Any:
        return (await self.embed([text]))[0]


def embedding(ask: Asked, monkeypatch: pytest.MonkeyPatch, answer: int | Exception) -> None:
    monkeypatch.setattr(ask.app.memories["archive"], "_embedder", Telling(answer))


async def test_an_embedding_that_only_knows_after_an_answer_is_asked(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding(ask, monkeypatch, 768)
    assert (await ask("new-collection", name="research"))["dimension"] == 768
    embedding(ask, monkeypatch, 768)
    failure = await ask.failure("new-collection", name="other", dimension=384)
    assert "768" in failure.message
    assert "384" in failure.message


async def test_a_model_of_another_dimension_than_declared_makes_no_collection(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    mismatch = EmbeddingMismatch("ollama answered a vector of 768 numbers, not of 384", hint="write `dimension 768`")
    embedding(ask, monkeypatch, mismatch)
    failure = await ask.failure("new-collection", OWNER_CALLER, name="research")
    assert failure.code == "provider_unavailable"
    assert "768" in failure.message
    assert "EMBEDDING_DIMENSION" in (failure.hint or "")
    assert "research" not in await names(ask)


async def test_an_embedding_that_is_away_matters_only_where_a_dimension_is_asked_for(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding(ask, monkeypatch, EmbeddingUnavailable("ollama is not there"))
    failure = await ask.failure("new-collection", OWNER_CALLER, name="research", dimension=768)
    assert failure.code == "provider_unavailable"
    made = await ask("new-collection", name="research")
    assert (made["created"], made["dimension"]) == (True, None)
    assert "does not answer" in made["notes"][0]


async def test_metrics_count_what_is_in_a_collection_and_what_was_asked(ask: Asked) -> None:
    before = (await ask("metrics"))["tools"].get("push", {"calls": 0, "failures": 0})
    await ask("push", text="One", tags=["a", "b"], collection="notes")
    await ask("push", text="Two", tags=["a"], project_id="p", memory_type="episodic", collection="notes")
    await ask.failure("push", text=" ")
    await ask.texts(query_text="one", collection="notes")
    answered = await ask("metrics", collection="notes")
    assert answered["collections"] == [
        {
            "name": "notes",
            "memory": "notes",
            "default": False,
            "items": 2,
            "by_type": {"episodic": 1, "semantic": 1, "procedural": 0},
            "embedded": 2,
            "waiting": 0,
            "projects": {"default": 1, "p": 1},
            "tags": {"a": 2, "b": 1},
            "index_problem": None,
            "embedding_problem": None,
        }
    ]
    after = answered["tools"]["push"]
    assert (after["calls"] - before["calls"], after["failures"] - before["failures"]) == (3, 1)


async def test_what_the_index_does_not_hold_yet_waits(ask: Asked) -> None:
    await ask("push", text="One", collection="notes")
    (counted,) = (await ask("metrics", collection="notes"))["collections"]
    assert (counted["items"], counted["embedded"], counted["waiting"]) == (1, 0, 1)


async def test_nothing_waits_for_a_vector_where_nothing_makes_any(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    await ask("push", text="One", collection="notes")
    monkeypatch.setattr(ask.app.memories["notes"], "_embedder", None)
    (counted,) = (await ask("metrics", collection="notes"))["collections"]
    assert (counted["items"], counted["embedded"], counted["waiting"]) == (1, 0, 0)


async def test_no_user_sees_what_another_one_asks(ask: Asked) -> None:
    async def pushes(caller: Caller) -> int:
        called = (await ask("metrics", caller))["tools"].get("push", {"calls": 0})["calls"]
        assert isinstance(called, int)
        return called

    adas, bobs, all_ = await pushes(ADA), await pushes(BOB), await pushes(OWNER_CALLER)
    await ask("push", ADA, text="One")
    assert (await pushes(ADA), await pushes(BOB), await pushes(OWNER_CALLER)) == (adas + 1, bobs, all_ + 1)


async def test_of_an_index_that_does_not_answer_is_said_that_nobody_knows(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> Any:
        raise IndexFailed("qdrant at 10.0.0.7:6333 does not answer")

    await ask("push", text="One", collection="notes")
    monkeypatch.setattr(ask.app.memories["notes"].indexer.index, "stats", away)
    (counted,) = (await ask("metrics", collection="notes"))["collections"]
    assert (counted["items"], counted["embedded"], counted["waiting"]) == (1, None, None)
    health = await ask.read("health")
    assert health["status"] == "degraded"
    (index,) = [each["index"] for each in health["memories"] if each["memory"] == "notes"]
    assert (index["reachable"], index["items"]) == (False, None)
    assert "10.0.0.7" not in str(health)


async def test_who_may_only_read_makes_none(ask: Asked) -> None:
    assert "scope write" in (await ask.failure("new-collection", READER, name="research")).message
    assert (await ask("get-collections", READER))["collections"]


@pytest.mark.parametrize(
    ("declared", "default"),
    [
        ([], "collection"),
        ([NOTES], "collection"),
        ([NOTES, collection("papers")], "papers"),
        ([collection("b"), collection("a")], "a"),
        ([collection("a"), collection("default")], "default"),
        ([collection("collection"), collection("zoo")], "zoo"),
        ([collection("collection")], "collection"),
    ],
)
async def test_the_default_collection_is_the_one_that_is_meant(
    tmp_path: Path, declared: list[Memory], default: str
) -> None:
    async with asking(tmp_path, *declared) as ask:
        memory = await default_memory(ask.app.context(ADA))
        assert memory.name == default
        assert (await ask("push", text="One"))["collection"] == default
        (first, *_) = (await ask("get-collections"))["collections"]
        assert (first["name"], first["default"]) == (default, True)


async def test_an_agent_that_writes_to_a_collection_has_its_own(tmp_path: Path) -> None:
    async with asking(tmp_path, collection("notes")) as ask:
        await ask("memory_write", agent="reviewer", text="What the reviewer learned", memory="notes")
        assert await names(ask) == {"notes": 0, "reviewer": 1}
        assert await ask.texts(query_text="learned", collection="reviewer") == ["What the reviewer learned"]
        assert await ask.texts(query_text="learned") == []
        # Like pushed items, it belongs to the default project unless another is given.
        assert await ask.texts(query_text="learned", collection="reviewer", project_id="default") != []


async def test_what_belongs_to_no_project_is_shown_so_and_counted_all_the_same(tmp_path: Path) -> None:
    async with asking(tmp_path, collection("notes")) as ask:
        item = Item(agent_id="notes", user_id="ada", memory_type="episodic", timestamp=BEGIN, text="A delivery")
        (kept,) = await ask.app.memories["notes"].store.append([item])
        assert (await ask("get", memory_id=kept.memory_id))["project_id"] is None
        assert await ask.read("projects") == []
        (counted,) = (await ask("metrics"))["collections"]
        assert (counted["items"], counted["projects"]) == (1, {})


async def test_a_collection_without_an_embedding_is_searched_by_keyword(tmp_path: Path) -> None:
    declared = Memory(name="notes", store=Variant(name="collection"), embedding=Variant(name="telepathy"))
    async with asking(tmp_path, declared) as ask:
        made = await ask("new-collection", name="research", dimension=384)
        assert (made["embedding"], made["dimension"]) == (None, None)
        assert "keywords only" in made["notes"][0]
        (listed, _) = (await ask("get-collections"))["collections"]
        assert listed["state"] == "something does not work as declared at the moment: stored items are preserved"
        (listed, _) = (await ask("get-collections", OWNER_CALLER))["collections"]
        assert "telepathy" in listed["state"]
