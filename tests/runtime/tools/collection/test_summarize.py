"""`summarize`: every acceptance criterion and every step of the fifth design, M9, with a server that speaks Ollama."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.choice import Choice
from dslc.blocks.memory import Memory, Summarize
from runtime.database.connection import Database
from runtime.errors import SymbiontError
from runtime.identity.caller import Caller, Scope
from runtime.memory.collection.store import CollectionStore
from runtime.memory.errors import StoreError
from runtime.memory.item import Item
from runtime.memory.keyed_lock import Turns
from runtime.memory.summary import consolidation
from runtime.memory.summary.extractive import extract
from runtime.models import open_model
from runtime.tools import TOOLS
from runtime.tools.context import Context
from runtime.tools.failure import Failure, failure_of
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import migrated
from tests.runtime.api.house import House, told
from tests.runtime.models.services import SAID, Service, never, says, serving, text

DAY = {"start": "2026-02-14T00:00:00Z", "end": "2026-02-14T23:59:59Z"}
NOTES = [
    "The deploy of the web shop failed. The disk of db-1 was full.",
    "Ada freed the disk of db-1!",
    "The deploy was made again. The disk of db-1 was full.",
]
EXTRACT = " ".join(NOTES)


@pytest.fixture
async def ollama() -> AsyncIterator[Service]:
    async with serving("ollama") as running:
        yield running


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(migrated(tmp_path / "symbiont.db"), KEY)
    yield opened
    await opened.close()


def block(*, model: Choice | None = None, name: str = "notes", **summarize: Any) -> Memory:
    return Memory(
        name=name,
        store=Choice(name="collection"),
        embedding=Choice(name="hashing"),
        summarize=Summarize(model=model, **summarize),
    )


def by_ollama(service: Service, **options: Any) -> Choice:
    return Choice(name="ollama", options={"url": service.url, **options})


@asynccontextmanager
async def house_of(database: Database, clock: ManualClock, root: Path, *blocks: Memory) -> AsyncIterator[House]:
    async with House(database, clock).remembering(root, *blocks) as opened:
        yield opened


@pytest.fixture
async def house(sqlite: Database, clock: ManualClock, tmp_path: Path, ollama: Service) -> AsyncIterator[House]:
    async with house_of(sqlite, clock, tmp_path, block(model=by_ollama(ollama))) as opened:
        yield opened


async def call(
    house: House, tool: str, given: Mapping[str, Any], user: str = "owner", *scopes: Scope
) -> dict[str, Any]:
    context = Context(Caller(user, frozenset(scopes or ("read", "write", "admin"))), house)
    return (await TOOLS[tool].call(context, given)).model_dump(mode="json")


async def summarize(house: House, user: str = "owner", *scopes: Scope, **given: Any) -> dict[str, Any]:
    return await call(house, "summarize", {"time_range": DAY, **given}, user, *scopes)


async def push(house: House, *texts: str, user: str = "owner", **given: Any) -> list[str]:
    """The ids of what was pushed, a minute after one another."""
    given = {"memory_type": "episodic", "tags": ["note", "daily"], **given}
    ids: list[str] = []
    for text_ in texts:
        pushed = await call(house, "push", {"text": text_, **given}, user, "write", "read")
        ids += pushed["memory_ids"]
        later(house, 60)
    return ids


def later(house: House, seconds: float) -> None:
    """Let time pass."""
    assert isinstance(house.clock, ManualClock)
    house.clock.advance(seconds)


async def failing(asked: Awaitable[Any], caller: Caller | None = None) -> Failure:
    with pytest.raises(SymbiontError) as caught:
        await asked
    return failure_of(caught.value, TOOLS["summarize"], caller)


# How to test, step by step.


async def test_the_steps_of_the_design(house: House, ollama: Service) -> None:
    # 1. Ingest episodic memories.
    ids = await push(house, *NOTES, project_id="default")

    # 2. Run summarize (abstractive).
    done = await summarize(house, strategy="auto", max_words=120)
    assert done["summary"] == SAID
    assert done["source_memory_ids"] == ids
    assert done["upserted_memory_id"] not in ids
    assert (done["strategy"], done["provider"], done["model"]) == ("abstractive", "ollama", "llama3.1:8b")
    assert done["notes"] == []

    # 3. Verify search discoverability.
    wanted = {"query_text": "deploy", "memory_type": "semantic", "tags": ["summary"], "project_id": "default"}
    (hit,) = (await call(house, "search", wanted))["hits"]
    assert hit["memory_id"] == done["upserted_memory_id"]
    assert hit["source_memory_ids"] == ids

    # 4. Idempotency check.
    assert await summarize(house, strategy="auto", max_words=120) == done
    assert len(ollama.bodies) == 1

    # 5. Fallback path.
    for _ in range(2):
        fallen = await summarize(house, strategy="auto", max_words=120, provider="none")
        assert (fallen["strategy"], fallen["provider"], fallen["model"]) == ("extractive", None, None)
        assert fallen["summary"] == EXTRACT
        assert fallen["upserted_memory_id"] == done["upserted_memory_id"]
    assert len((await call(house, "search", wanted))["hits"]) == 1


async def test_without_ollama_auto_is_extractive_and_says_so(
    sqlite: Database, clock: ManualClock, tmp_path: Path
) -> None:
    away = Choice(name="ollama", options={"url": "http://localhost:1"})
    async with house_of(sqlite, clock, tmp_path, block(model=away)) as house:
        ids = await push(house, *NOTES)
        done = await summarize(house)

        assert (done["strategy"], done["provider"], done["model"]) == ("extractive", None, None)
        assert done["summary"] == EXTRACT
        assert done["source_memory_ids"] == ids
        assert "the model ollama does not answer" in done["notes"][0]
        again = await summarize(house)
        assert {**again, "notes": []} == {**done, "notes": []}


async def test_the_samples_of_the_design_are_taken_and_answered(house: House) -> None:
    await push(house, *NOTES)
    sample = {
        "project_id": "default",
        "time_range": DAY,
        "tags": ["daily"],
        "limit": 25,
        "strategy": "auto",
        "max_words": 150,
    }
    done = await call(house, "summarize", sample)

    assert set(done) == {
        *("summary", "source_memory_ids", "upserted_memory_id", "used_filters", "strategy", "provider", "model"),
        "notes",
    }
    assert done["used_filters"] == {
        "project_id": "default",
        "memory_type": "episodic",
        "tags": ["daily"],
        "time_range": DAY,
        "limit": 25,
        "score_threshold": None,
        "scoreThreshold": None,
        "collection": "notes",
    }


# What is kept.


async def test_one_semantic_item_is_kept_with_its_sources_tags_and_project(house: House) -> None:
    ids = await push(house, *NOTES, project_id="web")
    done = await summarize(house, project_id="web", tags=["daily"])
    kept = await call(house, "get", {"memory_id": done["upserted_memory_id"]})

    (key,) = [tag for tag in kept["tags"] if tag.startswith("summary:")]
    assert kept["memory_type"] == "semantic"
    assert set(kept["tags"]) == {"daily", "summary", key}
    assert len(key) == len("summary:") + 64
    assert kept["project_id"] == "web"
    assert kept["source_memory_ids"] == ids
    assert kept["text"] == done["summary"]
    assert kept["provenance"]["author"] == "ollama/llama3.1:8b"
    assert (await call(house, "get-collections", {}))["collections"]


async def test_a_secret_in_a_models_answer_is_neither_kept_nor_answered(house: House, ollama: Service) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    await push(house, *NOTES)
    ollama.said = f"Ada used {secret} for the deploy."
    done = await summarize(house)
    kept = await call(house, "get", {"memory_id": done["upserted_memory_id"]})

    assert secret not in f"{done}{kept}"
    assert "for the deploy" in done["summary"]


async def test_an_answer_is_bounded_to_the_words_that_are_wanted(house: House, ollama: Service) -> None:
    await push(house, *NOTES)
    ollama.said = "word " * 1000
    done = await summarize(house, max_words=20)

    assert len(done["summary"].split()) == 20
    assert "at most 20 words" in ollama.bodies[0]["system"]


async def test_the_memory_says_how_many_words_where_the_call_does_not(
    sqlite: Database, clock: ManualClock, tmp_path: Path
) -> None:
    async with house_of(sqlite, clock, tmp_path, block(model=Choice(name="none"), max_words=7)) as house:
        await push(house, *NOTES)
        done = await summarize(house)

        assert done["summary"] == "The deploy of the web shop failed."
        assert done["notes"] == []


async def test_a_text_that_is_a_summarys_own_stays_what_it_is(house: House) -> None:
    (only,) = await push(house, "The deploy failed")
    done = await summarize(house, strategy="extractive")

    assert done["summary"] == "The deploy failed"
    assert done["upserted_memory_id"] != only
    assert (await call(house, "get", {"memory_id": only}))["memory_type"] == "episodic"


async def test_two_summaries_that_say_the_same_are_two(house: House) -> None:
    await push(house, "The deploy failed. Yes.", "The deploy failed. Yes")
    first = await summarize(house, strategy="extractive", limit=1)
    second = await summarize(house, strategy="extractive")

    assert first["summary"] == second["summary"]
    assert first["upserted_memory_id"] != second["upserted_memory_id"]
    assert await summarize(house, strategy="extractive") == second
    assert await summarize(house, strategy="extractive", limit=1) == first


# What is summarised.


async def test_only_what_was_asked_for_is_summarised(house: House, ollama: Service) -> None:
    (early,) = await push(house, "Early.")
    later(house, 86_400)
    (late,) = await push(house, "Late.")
    await push(house, "A fact.", memory_type="semantic")
    await push(house, "Elsewhere.", project_id="other")
    (tagged,) = await push(house, "Tagged.", tags=["incident"])
    await push(house, "Another collection.", collection=(await call(house, "new-collection", {"name": "side"}))["name"])

    whole = {"start": "2026-02-14T00:00:00Z", "end": "2026-02-15T23:59:59Z"}
    assert (await summarize(house))["source_memory_ids"] == [early]
    assert (await summarize(house, time_range=whole))["source_memory_ids"] == [early, late, tagged]
    assert (await summarize(house, time_range=whole, tags="incident"))["source_memory_ids"] == [tagged]
    assert (await summarize(house, time_range=whole, tags=["incident", "note"]))["source_memory_ids"] == [
        *(early, late, tagged)
    ]
    assert (await summarize(house, time_range=whole, limit=2))["source_memory_ids"] == [early, late]
    assert len((await summarize(house, time_range=whole, project_id="other"))["source_memory_ids"]) == 1
    assert len((await summarize(house, time_range=whole, collection="side"))["source_memory_ids"]) == 1
    assert "- 2026-02-14 Early.\n- 2026-02-15 Late." in ollama.prompts[1]


async def test_both_ends_of_the_time_are_included(house: House) -> None:
    ids = await push(house, "A.", "B.", "C.")
    done = await summarize(house, time_range={"start": "2026-02-14T10:30:00Z", "end": "2026-02-14T11:31:00+01:00"})

    assert done["source_memory_ids"] == ids[:2]
    assert done["used_filters"]["time_range"] == {"start": "2026-02-14T10:30:00Z", "end": "2026-02-14T10:31:00Z"}


async def test_the_last_moment_that_there_is_can_be_an_end(house: House) -> None:
    ids = await push(house, "A.")
    done = await summarize(house, time_range={"start": "0001-01-01T00:00:00Z", "end": "9999-12-31T23:59:59.999999Z"})

    assert done["source_memory_ids"] == ids


async def test_other_names_of_parameters_are_understood(house: House) -> None:
    ids = await push(house, "A.", memory_type="procedural", project_id="web")
    done = await summarize(house, type="procedural", project="web", k=3, scoreThreshold=0.5)

    assert done["source_memory_ids"] == ids
    assert done["used_filters"]["limit"] == 3
    assert done["used_filters"]["score_threshold"] == done["used_filters"]["scoreThreshold"] == 0.5


async def test_a_threshold_leaves_nothing_out(house: House) -> None:
    ids = await push(house, *NOTES)

    assert (await summarize(house, score_threshold=0.99))["source_memory_ids"] == ids


async def test_summaries_are_no_part_of_another_one_unless_they_are_asked_for(house: House) -> None:
    facts = await push(house, "A fact.", memory_type="semantic")
    first = await summarize(house, type="semantic", strategy="extractive")
    again = await summarize(house, type="semantic", strategy="extractive")
    of_summaries = await summarize(house, type="semantic", tags=["summary"], strategy="extractive")

    assert first["source_memory_ids"] == facts
    assert again == first
    assert of_summaries["source_memory_ids"] == [first["upserted_memory_id"]]
    kept = await call(house, "get", {"memory_id": of_summaries["upserted_memory_id"]})
    assert len([tag for tag in kept["tags"] if tag.startswith("summary:")]) == 1


async def test_what_an_agent_kept_without_a_project_is_of_the_default_one(house: House) -> None:
    item = Item(
        agent_id="reviewer",
        memory_type="episodic",
        timestamp=datetime(2026, 2, 14, 9, tzinfo=UTC),
        text="The build broke.",
    )
    await house.memories["notes"].store.append([item])
    done = await summarize(house, collection="reviewer", strategy="extractive")

    assert done["summary"] == "The build broke."


async def test_nobody_summarises_what_is_anothers(house: House, ollama: Service) -> None:
    await push(house, "Ada's secret plan.", user="ada")
    mine = await push(house, "Bob's note.", user="bob")
    done = await summarize(house, "bob", "read", "write", strategy="extractive")

    assert done["source_memory_ids"] == mine
    assert "Ada" not in done["summary"]
    kept = await call(house, "get", {"memory_id": done["upserted_memory_id"]}, "bob", "read")
    assert kept["user_id"] == "bob"
    told_ = await failing(call(house, "get", {"memory_id": done["upserted_memory_id"]}, "ada", "read"))
    assert told_.code == "invalid_params"


# The same again.


async def test_what_was_pushed_since_makes_another_summary(house: House) -> None:
    await push(house, *NOTES)
    first = await summarize(house)
    await push(house, "One more thing.")

    assert (await summarize(house))["upserted_memory_id"] != first["upserted_memory_id"]


async def test_a_summary_that_is_there_is_answered_whether_or_not_a_model_is(house: House, ollama: Service) -> None:
    await push(house, *NOTES)
    first = await summarize(house)
    ollama.looks += [says(503)] * 3
    later(house, 3600)

    assert await summarize(house) == first
    assert len(ollama.bodies) == 1


async def test_another_way_that_is_asked_for_writes_the_same_item_anew(house: House, ollama: Service) -> None:
    await push(house, *NOTES)
    ids, told_ = set(), []
    for given in (
        {"strategy": "extractive"},
        {"strategy": "auto"},
        {"strategy": "abstractive"},
        {"provider": "ollama"},
        {"model": "mistral"},
        {"strategy": "abstractive"},
        {"provider": "none"},
    ):
        done = await summarize(house, **given)
        ids.add(done["upserted_memory_id"])
        told_.append((done["strategy"], done["model"]))

    assert len(ids) == 1
    assert told_ == [
        ("extractive", None),
        ("extractive", None),
        ("abstractive", "llama3.1:8b"),
        ("abstractive", "llama3.1:8b"),
        ("abstractive", "mistral"),
        ("abstractive", "mistral"),
        ("extractive", None),
    ]
    assert [body["model"] for body in ollama.bodies] == ["llama3.1:8b", "mistral"]


async def test_another_number_of_words_writes_it_anew_and_fewer_do_not_spoil_a_later_summary(house: House) -> None:
    await push(house, *NOTES)
    long = await summarize(house, strategy="extractive")
    short = await summarize(house, strategy="extractive", max_words=6)

    assert short["summary"] == "The deploy of the web shop…"
    assert short["upserted_memory_id"] == long["upserted_memory_id"]
    assert await summarize(house, strategy="extractive") == long


async def test_a_summary_of_an_item_that_was_changed_since_says_what_it_says_now(house: House, ollama: Service) -> None:
    (changed,) = await push(house, "We deploy on Friday.")
    first = await summarize(house, strategy="extractive")
    by_model = await summarize(house, strategy="abstractive")
    await call(house, "update", {"memory_id": changed, "text": "We deploy on Monday."})
    second = await summarize(house, strategy="extractive")

    assert first["summary"] == "We deploy on Friday."
    assert second["summary"] == "We deploy on Monday."
    assert {each["upserted_memory_id"] for each in (first, by_model, second)} == {first["upserted_memory_id"]}
    await call(house, "update", {"memory_id": changed, "text": "We deploy on Sunday."})
    ollama.answers.append(says(503, {"error": "busy"}))
    # With nobody to write it anew, what is not so any more is not answered either.
    assert (await summarize(house))["summary"] == "We deploy on Sunday."


async def test_tags_that_were_changed_since_leave_the_summary_as_it_is(house: House, ollama: Service) -> None:
    (changed,) = await push(house, "We deploy on Friday.")
    first = await summarize(house)
    await call(house, "update", {"memory_id": changed, "tags": ["ops", "daily"]})

    assert await summarize(house) == first
    assert len(ollama.bodies) == 1


@pytest.mark.parametrize("ways", [("extractive", "extractive"), ("abstractive", "auto")])
async def test_items_that_the_limit_left_out_are_told(house: House, ways: tuple[str, str]) -> None:
    await push(house, *NOTES)

    assert (await summarize(house, limit=3, strategy=ways[0]))["notes"] == []
    for way in ways:
        (note,) = (await summarize(house, limit=2, strategy=way))["notes"]
        assert "the 2 oldest were summarised" in note
        assert "500" in note


async def test_a_model_that_nobody_configured_is_asked_only_by_a_call_that_wants_one(
    sqlite: Database, clock: ManualClock, tmp_path: Path, ollama: Service
) -> None:
    async with house_of(sqlite, clock, tmp_path, block()) as house:
        # As the daemon has it: what listens at Ollama's own address on this machine, whoever that is.
        house.memories["notes"].summarizer = await open_model(by_ollama(ollama), {"url": ollama.url})
        await push(house, *NOTES)
        plain = await summarize(house)
        assert (plain["strategy"], plain["summary"], plain["notes"]) == ("extractive", EXTRACT, [])
        assert (ollama.bodies, ollama.looked) == ([], 0)

        asked = await summarize(house, strategy="abstractive")
        assert asked["summary"] == SAID
        assert "sent to ollama at its default address" in asked["notes"][0]


async def test_a_model_that_is_away_does_not_worsen_the_summary_that_is_there(house: House, ollama: Service) -> None:
    await push(house, *NOTES)
    first = await summarize(house)
    ollama.answers.append(says(503, {"error": "busy"}))
    second = await summarize(house, model="mistral")

    assert second["summary"] == first["summary"]
    assert second["model"] == "llama3.1:8b"
    assert "busy" in second["notes"][0]


async def test_calls_at_the_same_time_make_one_summary(house: House, ollama: Service) -> None:
    await push(house, *NOTES)
    done = await asyncio.gather(*(summarize(house) for _ in range(8)))

    assert len({each["upserted_memory_id"] for each in done}) == 1
    assert len(ollama.bodies) == 1


class _NoTurns(Turns):
    """Of another process, whose turns are not ours."""

    def of(self, key: object) -> Any:
        return Turns().of(key)


async def test_processes_on_one_database_keep_one_summary(
    database: Database, clock: ManualClock, tmp_path: Path, ollama: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consolidation, "_turns", _NoTurns())
    memory = block(model=by_ollama(ollama))
    async with (
        house_of(database, clock, tmp_path / "one", memory) as one,
        house_of(database, clock, tmp_path / "other", memory) as other,
    ):
        await push(one, *NOTES)
        done = await asyncio.gather(*(summarize(each) for each in (one, other) * 3))

        assert len({each["upserted_memory_id"] for each in done}) == 1
        wanted = {"query_text": "deploy disk", "tags": ["summary"]}
        assert len((await call(other, "search", wanted))["hits"]) == 1


async def test_a_summary_whose_tags_were_changed_is_still_the_one(house: House) -> None:
    await push(house, *NOTES)
    first = await summarize(house)
    await call(house, "update", {"memory_id": first["upserted_memory_id"], "tags": ["mine"]})

    assert (await summarize(house))["upserted_memory_id"] == first["upserted_memory_id"]


async def test_a_summary_that_was_forgotten_is_made_again(house: House) -> None:
    await push(house, *NOTES)
    first = await summarize(house)
    await call(house, "forget", {"memory_id": first["upserted_memory_id"]})
    second = await summarize(house)

    assert second["upserted_memory_id"] != first["upserted_memory_id"]
    assert second["summary"] == first["summary"]


# Bad input.


@pytest.mark.parametrize(
    ("given", "field", "what"),
    [
        ({"time_range": None}, "time_range", "an object"),
        ({"time_range": "today"}, "time_range", "an object"),
        ({"time_range": {}}, "time_range", "no start and no end"),
        ({"time_range": {"start": DAY["start"]}}, "time_range", "no end"),
        ({"time_range": {"end": DAY["end"]}}, "time_range", "no start"),
        ({"time_range": {"start": DAY["end"], "end": DAY["start"]}}, "time_range", "before its start"),
        ({"time_range": {**DAY, "start": "yesterday"}}, "time_range.start", "RFC 3339"),
        ({"time_range": {**DAY, "end": "2026-02-14"}}, "time_range.end", "RFC 3339"),
        ({"time_range": {**DAY, "end": "2026-02-30T00:00:00Z"}}, "time_range.end", "no such date"),
        ({"time_range": {**DAY, "end": 5}}, "time_range.end", "not text"),
        ({"limit": 0}, "limit", "greater than or equal to 1"),
        ({"limit": -3}, "limit", "greater than or equal to 1"),
        ({"limit": 501}, "limit", "less than or equal to 500"),
        ({"limit": "many"}, "limit", "integer"),
        ({"strategy": "clever"}, "strategy", "abstractive"),
        ({"provider": "claude"}, "provider", "ollama"),
        ({"strategy": "abstractive", "provider": "none"}, "provider", "needs a language model"),
        ({"max_words": 0}, "max_words", "greater than or equal to 1"),
        ({"model": ""}, "model", "at least 1"),
        ({"tags": [" "]}, "tags.0", "blank"),
        ({"memory_type": "mood"}, "memory_type", "episodic"),
        ({"score_threshold": -1}, "score_threshold", "greater"),
        ({"score_threshold": 2}, "score_threshold", "less"),
        ({"collection": "no such thing"}, "collection", "form"),
    ],
    ids=str,
)
async def test_wrong_input_is_told_with_its_field_and_an_example(
    house: House, given: dict[str, Any], field: str, what: str
) -> None:
    await push(house, *NOTES)
    failed = await failing(summarize(house, **given))

    assert failed.code == "invalid_params"
    assert failed.field == field
    assert what in failed.message
    assert failed.example


async def test_a_missing_time_is_told_with_an_example(house: House) -> None:
    failed = await failing(call(house, "summarize", {}))

    assert (failed.code, failed.field) == ("invalid_params", "time_range")
    assert "required" in failed.message
    assert failed.line().endswith(
        'For example: {"time_range": {"start": "2026-11-01T00:00:00Z", "end": "2026-11-07T23:59:59Z"}}'
    )


async def test_nothing_to_summarise_is_told_with_what_was_asked_for(house: House, ollama: Service) -> None:
    failed = await failing(summarize(house, tags=["daily"], project_id="web"))

    assert (failed.code, failed.field) == ("invalid_params", "time_range")
    assert "no episodic item of the project web with one of the tags daily" in failed.message
    assert ollama.bodies == []


# When the model is away.


async def test_abstractive_without_its_model_is_provider_unavailable(
    sqlite: Database, clock: ManualClock, tmp_path: Path
) -> None:
    away = Choice(name="ollama", options={"url": "http://localhost:1"})
    async with house_of(sqlite, clock, tmp_path, block(model=away)) as house:
        await push(house, *NOTES)
        failed = await failing(summarize(house, strategy="abstractive"))

        assert failed.code == "provider_unavailable"
        assert failed.line() == "provider_unavailable: the model ollama does not answer (is it running?)"
        assert (await call(house, "search", {"query_text": "deploy", "tags": ["summary"]}))["hits"] == []


@pytest.mark.parametrize("model", [None, Choice(name="none")], ids=["undeclared", "none"])
async def test_abstractive_where_no_model_is_declared_is_provider_unavailable(
    sqlite: Database, clock: ManualClock, tmp_path: Path, model: Choice | None
) -> None:
    async with house_of(sqlite, clock, tmp_path, block(model=model)) as house:
        await push(house, *NOTES)
        failed = await failing(summarize(house, strategy="abstractive"))

        assert failed.code == "provider_unavailable"
        assert "summarize { model ollama }" in str(failed.hint)


async def test_another_provider_than_the_memorys_is_unavailable(house: House) -> None:
    await push(house, *NOTES)
    failed = await failing(summarize(house, strategy="abstractive", provider="openai"))

    assert failed.code == "provider_unavailable"
    fallen = await summarize(house, provider="openai")
    assert fallen["strategy"] == "extractive"
    assert "openai" in fallen["notes"][0]


async def test_a_model_that_is_not_there_is_told_with_how_to_get_it(house: House, ollama: Service) -> None:
    await push(house, *NOTES)
    ollama.answers += [says(404, {"error": "model 'x' not found"}) for _ in range(3)]
    named = await failing(summarize(house, strategy="abstractive", model="mistral"))
    own = await failing(summarize(house, strategy="abstractive"))
    fallen = await summarize(house)

    assert (named.code, named.field, named.hint) == ("invalid_params", "model", "ollama pull mistral")
    assert (own.code, own.hint) == ("provider_unavailable", "ollama pull llama3.1:8b")
    assert fallen["strategy"] == "extractive"
    assert "ollama pull llama3.1:8b" in fallen["notes"][0]


async def test_a_model_that_says_nothing_is_gone_without(house: House, ollama: Service) -> None:
    await push(house, *NOTES)
    ollama.answers += [text("  \n"), text("<think>hm</think>")]
    failed = await failing(summarize(house, strategy="abstractive"))
    fallen = await summarize(house)

    assert failed.code == "provider_unavailable"
    assert "answered nothing" in failed.message
    assert fallen["summary"] == EXTRACT
    assert "answered nothing" in fallen["notes"][0]


async def test_a_model_that_never_answers_is_gone_without(
    sqlite: Database, clock: ManualClock, tmp_path: Path, ollama: Service
) -> None:
    slow = by_ollama(ollama, timeout=timedelta(seconds=1))
    async with house_of(sqlite, clock, tmp_path, block(model=slow)) as house:
        await push(house, *NOTES)
        ollama.answers.append(never)

        assert (await summarize(house))["strategy"] == "extractive"


async def test_only_an_administrator_is_told_which_host_is_away(house: House, ollama: Service) -> None:
    await push(house, *NOTES, user="bob")
    ollama.answers += [says(500, {"error": "boom"})] * 2
    asked = summarize(house, "bob", "read", "write", strategy="abstractive")
    failed = await failing(asked, caller=Caller("bob", frozenset({"write"})))
    fallen = await summarize(house, "bob", "read", "write")

    assert failed.code == "provider_unavailable"
    assert ollama.host not in f"{failed}{fallen}"
    assert fallen["notes"] == ["no language model was asked, or none answered"]


# When it cannot be kept.


async def test_a_summary_that_cannot_be_kept_is_upsert_failed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: Any, **__: Any) -> Any:
        raise StoreError("the disk is full", hint="make room")

    await push(house, *NOTES)
    monkeypatch.setattr(CollectionStore, "_append", full)
    failed = await failing(summarize(house))

    assert (failed.code, failed.hint) == ("upsert_failed", "make room")


# Over HTTP.


async def test_it_is_served_over_http(house: House) -> None:
    await push(house, *NOTES)
    token = await house.token("owner", "admin")
    reply = await house.ask(token, "POST", "/v1/tools/summarize", {"time_range": DAY, "tags": "daily"})
    assert reply.status == 200, reply.body
    assert told(reply)["summary"] == SAID

    wrong = await house.ask(token, "POST", "/v1/tools/summarize", {"time_range": DAY, "limit": 0})
    assert wrong.status in {400, 422}
    assert "invalid_params" in wrong.body.decode()


def test_the_texts_of_these_tests_are_what_the_algorithm_makes() -> None:
    assert extract(NOTES, 250) == EXTRACT
