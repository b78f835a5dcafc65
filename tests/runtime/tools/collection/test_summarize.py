"""`summarize`: its acceptance criteria and every step of its specification, with a server that speaks Ollama."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.memory import Memory, Summarize
from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.errors import SymbiontError
from runtime.identity.caller import Caller, Scope
from runtime.memory.collection.store import SqlCollectionStore
from runtime.memory.errors import StoreError
from runtime.memory.item import Item
from runtime.memory.keyed_lock import KeyedLock
from runtime.memory.summary import consolidation
from runtime.memory.summary.extractive import extract
from runtime.models.calls.counted_calls import TRIES
from runtime.models.client import open_client
from runtime.tools import TOOLS
from runtime.tools.failure import Failure, failure_of
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import migrated
from tests.runtime.api.app import App, told
from tests.runtime.models.services import SAID, Service, never, says, serving, text
from tests.runtime.outbound.test_http import Sleepless
from tests.runtime.tools.asking import line

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


def block(*, model: Variant | None = None, name: str = "notes", **summarize: Any) -> Memory:
    return Memory(
        name=name,
        store=Variant(name="collection"),
        embedding=Variant(name="hashing"),
        summarize=Summarize(model=model, **summarize),
    )


def by_ollama(service: Service, **options: Any) -> Variant:
    return Variant(name="ollama", options={"url": service.url, **options})


@asynccontextmanager
async def app_of(database: Database, clock: ManualClock, root: Path, *blocks: Memory) -> AsyncIterator[App]:
    async with App(database, clock).remembering(root, *blocks) as opened:
        yield opened


@pytest.fixture
def clock() -> ManualClock:
    """A clock that does not wait before a call is repeated."""
    return Sleepless()


@pytest.fixture
async def app(sqlite: Database, clock: ManualClock, tmp_path: Path, ollama: Service) -> AsyncIterator[App]:
    async with app_of(sqlite, clock, tmp_path, block(model=by_ollama(ollama))) as opened:
        yield opened


async def call(app: App, tool: str, given: Mapping[str, Any], user: str = "owner", *scopes: Scope) -> dict[str, Any]:
    context = app.context(Caller(user, frozenset(scopes or ("read", "write", "admin"))))
    return (await TOOLS[tool].call(context, given)).model_dump(mode="json")


async def summarize(app: App, user: str = "owner", *scopes: Scope, **given: Any) -> dict[str, Any]:
    return await call(app, "summarize", {"time_range": DAY, **given}, user, *scopes)


async def push(app: App, *texts: str, user: str = "owner", **given: Any) -> list[str]:
    """Push items a minute apart and return their ids."""
    given = {"memory_type": "episodic", "tags": ["note", "daily"], **given}
    ids: list[str] = []
    for text_ in texts:
        pushed = await call(app, "push", {"text": text_, **given}, user, "write", "read")
        ids += pushed["memory_ids"]
        later(app, 60)
    return ids


def later(app: App, seconds: float) -> None:
    """Advance the clock."""
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(seconds)


async def failing(asked: Awaitable[Any], caller: Caller | None = None) -> Failure:
    with pytest.raises(SymbiontError) as caught:
        await asked
    return failure_of(caught.value, TOOLS["summarize"], caller)


# The steps of the specification's test.


async def test_the_steps_of_the_design(app: App, ollama: Service) -> None:
    # 1. Ingest episodic memories.
    ids = await push(app, *NOTES, project_id="default")

    # 2. Run summarize (abstractive).
    done = await summarize(app, strategy="auto", max_words=120)
    assert done["summary"] == SAID
    assert done["source_memory_ids"] == ids
    assert done["upserted_memory_id"] not in ids
    assert (done["strategy"], done["provider"], done["model"]) == ("abstractive", "ollama", "llama3.1:8b")
    assert done["notes"] == []

    # 3. Verify search discoverability.
    wanted = {"query_text": "deploy", "memory_type": "semantic", "tags": ["summary"], "project_id": "default"}
    (hit,) = (await call(app, "search", wanted))["hits"]
    assert hit["memory_id"] == done["upserted_memory_id"]
    assert hit["source_memory_ids"] == ids

    # 4. Idempotency check.
    assert await summarize(app, strategy="auto", max_words=120) == done
    assert len(ollama.bodies) == 1

    # 5. Fallback path.
    for _ in range(2):
        fallen = await summarize(app, strategy="auto", max_words=120, provider="none")
        assert (fallen["strategy"], fallen["provider"], fallen["model"]) == ("extractive", None, None)
        assert fallen["summary"] == EXTRACT
        assert fallen["upserted_memory_id"] == done["upserted_memory_id"]
    assert len((await call(app, "search", wanted))["hits"]) == 1


async def test_without_ollama_auto_is_extractive_and_says_so(
    sqlite: Database, clock: ManualClock, tmp_path: Path
) -> None:
    away = Variant(name="ollama", options={"url": "http://localhost:1"})
    async with app_of(sqlite, clock, tmp_path, block(model=away)) as app:
        ids = await push(app, *NOTES)
        done = await summarize(app)

        assert (done["strategy"], done["provider"], done["model"]) == ("extractive", None, None)
        assert done["summary"] == EXTRACT
        assert done["source_memory_ids"] == ids
        assert "the model ollama does not answer" in done["notes"][0]
        again = await summarize(app)
        assert {**again, "notes": []} == {**done, "notes": []}


async def test_the_samples_of_the_design_are_taken_and_answered(app: App) -> None:
    await push(app, *NOTES)
    sample = {
        "project_id": "default",
        "time_range": DAY,
        "tags": ["daily"],
        "limit": 25,
        "strategy": "auto",
        "max_words": 150,
    }
    done = await call(app, "summarize", sample)

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


# Stored data.


async def test_one_semantic_item_is_kept_with_its_sources_tags_and_project(app: App) -> None:
    ids = await push(app, *NOTES, project_id="web")
    done = await summarize(app, project_id="web", tags=["daily"])
    kept = await call(app, "get", {"memory_id": done["upserted_memory_id"]})

    (key,) = [tag for tag in kept["tags"] if tag.startswith("summary:")]
    assert kept["memory_type"] == "semantic"
    assert set(kept["tags"]) == {"daily", "summary", key}
    assert len(key) == len("summary:") + 64
    assert kept["project_id"] == "web"
    assert kept["source_memory_ids"] == ids
    assert kept["text"] == done["summary"]
    assert kept["provenance"]["author"] == "ollama/llama3.1:8b"
    assert (await call(app, "get-collections", {}))["collections"]


async def test_a_secret_in_a_models_answer_is_neither_kept_nor_answered(app: App, ollama: Service) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    await push(app, *NOTES)
    ollama.said = f"Ada used {secret} for the deploy."
    done = await summarize(app)
    kept = await call(app, "get", {"memory_id": done["upserted_memory_id"]})

    assert secret not in f"{done}{kept}"
    assert "for the deploy" in done["summary"]


async def test_an_answer_is_bounded_to_the_words_that_are_wanted(app: App, ollama: Service) -> None:
    await push(app, *NOTES)
    ollama.said = "word " * 1000
    done = await summarize(app, max_words=20)

    assert len(done["summary"].split()) == 20
    assert "at most 20 words" in ollama.bodies[0]["messages"][0]["content"]


async def test_the_memory_says_how_many_words_where_the_call_does_not(
    sqlite: Database, clock: ManualClock, tmp_path: Path
) -> None:
    async with app_of(sqlite, clock, tmp_path, block(model=Variant(name="none"), max_words=7)) as app:
        await push(app, *NOTES)
        done = await summarize(app)

        assert done["summary"] == "The deploy of the web shop failed."
        assert done["notes"] == []


async def test_a_text_that_is_a_summarys_own_stays_what_it_is(app: App) -> None:
    (only,) = await push(app, "The deploy failed")
    done = await summarize(app, strategy="extractive")

    assert done["summary"] == "The deploy failed"
    assert done["upserted_memory_id"] != only
    assert (await call(app, "get", {"memory_id": only}))["memory_type"] == "episodic"


async def test_two_summaries_that_say_the_same_are_two(app: App) -> None:
    await push(app, "The deploy failed. Yes.", "The deploy failed. Yes")
    first = await summarize(app, strategy="extractive", limit=1)
    second = await summarize(app, strategy="extractive")

    assert first["summary"] == second["summary"]
    assert first["upserted_memory_id"] != second["upserted_memory_id"]
    assert await summarize(app, strategy="extractive") == second
    assert await summarize(app, strategy="extractive", limit=1) == first


# Selection of items.


async def test_only_what_was_asked_for_is_summarised(app: App, ollama: Service) -> None:
    (early,) = await push(app, "Early.")
    later(app, 86_400)
    (late,) = await push(app, "Late.")
    await push(app, "A fact.", memory_type="semantic")
    await push(app, "Elsewhere.", project_id="other")
    (tagged,) = await push(app, "Tagged.", tags=["incident"])
    await push(app, "Another collection.", collection=(await call(app, "new-collection", {"name": "side"}))["name"])

    whole = {"start": "2026-02-14T00:00:00Z", "end": "2026-02-15T23:59:59Z"}
    assert (await summarize(app))["source_memory_ids"] == [early]
    assert (await summarize(app, time_range=whole))["source_memory_ids"] == [early, late, tagged]
    assert (await summarize(app, time_range=whole, tags="incident"))["source_memory_ids"] == [tagged]
    assert (await summarize(app, time_range=whole, tags=["incident", "note"]))["source_memory_ids"] == [
        *(early, late, tagged)
    ]
    assert (await summarize(app, time_range=whole, limit=2))["source_memory_ids"] == [early, late]
    assert len((await summarize(app, time_range=whole, project_id="other"))["source_memory_ids"]) == 1
    assert len((await summarize(app, time_range=whole, collection="side"))["source_memory_ids"]) == 1
    assert "- 2026-02-14 Early.\n- 2026-02-15 Late." in ollama.prompts[1]


async def test_both_ends_of_the_time_are_included(app: App) -> None:
    ids = await push(app, "A.", "B.", "C.")
    done = await summarize(app, time_range={"start": "2026-02-14T10:30:00Z", "end": "2026-02-14T11:31:00+01:00"})

    assert done["source_memory_ids"] == ids[:2]
    assert done["used_filters"]["time_range"] == {"start": "2026-02-14T10:30:00Z", "end": "2026-02-14T10:31:00Z"}


async def test_the_last_moment_that_there_is_can_be_an_end(app: App) -> None:
    ids = await push(app, "A.")
    done = await summarize(app, time_range={"start": "0001-01-01T00:00:00Z", "end": "9999-12-31T23:59:59.999999Z"})

    assert done["source_memory_ids"] == ids


async def test_other_names_of_parameters_are_understood(app: App) -> None:
    ids = await push(app, "A.", memory_type="procedural", project_id="web")
    done = await summarize(app, type="procedural", project="web", k=3, scoreThreshold=0.5)

    assert done["source_memory_ids"] == ids
    assert done["used_filters"]["limit"] == 3
    assert done["used_filters"]["score_threshold"] == done["used_filters"]["scoreThreshold"] == 0.5


async def test_a_threshold_leaves_nothing_out(app: App) -> None:
    ids = await push(app, *NOTES)

    assert (await summarize(app, score_threshold=0.99))["source_memory_ids"] == ids


async def test_summaries_are_no_part_of_another_one_unless_they_are_asked_for(app: App) -> None:
    facts = await push(app, "A fact.", memory_type="semantic")
    first = await summarize(app, type="semantic", strategy="extractive")
    again = await summarize(app, type="semantic", strategy="extractive")
    of_summaries = await summarize(app, type="semantic", tags=["summary"], strategy="extractive")

    assert first["source_memory_ids"] == facts
    assert again == first
    assert of_summaries["source_memory_ids"] == [first["upserted_memory_id"]]
    kept = await call(app, "get", {"memory_id": of_summaries["upserted_memory_id"]})
    assert len([tag for tag in kept["tags"] if tag.startswith("summary:")]) == 1


async def test_what_an_agent_kept_without_a_project_is_of_the_default_one(app: App) -> None:
    item = Item(
        agent_id="reviewer",
        memory_type="episodic",
        timestamp=datetime(2026, 2, 14, 9, tzinfo=UTC),
        text="The build broke.",
    )
    await app.memories["notes"].store.append([item])
    done = await summarize(app, collection="reviewer", strategy="extractive")

    assert done["summary"] == "The build broke."


async def test_nobody_summarises_what_is_anothers(app: App, ollama: Service) -> None:
    await push(app, "Ada's secret plan.", user="ada")
    mine = await push(app, "Bob's note.", user="bob")
    done = await summarize(app, "bob", "read", "write", strategy="extractive")

    assert done["source_memory_ids"] == mine
    assert "Ada" not in done["summary"]
    kept = await call(app, "get", {"memory_id": done["upserted_memory_id"]}, "bob", "read")
    assert kept["user_id"] == "bob"
    told_ = await failing(call(app, "get", {"memory_id": done["upserted_memory_id"]}, "ada", "read"))
    assert told_.code == "invalid_params"


# Repetition.


async def test_what_was_pushed_since_makes_another_summary(app: App) -> None:
    await push(app, *NOTES)
    first = await summarize(app)
    await push(app, "One more thing.")

    assert (await summarize(app))["upserted_memory_id"] != first["upserted_memory_id"]


async def test_a_summary_that_is_there_is_answered_whether_or_not_a_model_is(app: App, ollama: Service) -> None:
    await push(app, *NOTES)
    first = await summarize(app)
    ollama.looks += [says(503)] * 3
    later(app, 3600)

    assert await summarize(app) == first
    assert len(ollama.bodies) == 1


async def test_another_way_that_is_asked_for_writes_the_same_item_anew(app: App, ollama: Service) -> None:
    await push(app, *NOTES)
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
        done = await summarize(app, **given)
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


async def test_another_number_of_words_writes_it_anew_and_fewer_do_not_spoil_a_later_summary(app: App) -> None:
    await push(app, *NOTES)
    long = await summarize(app, strategy="extractive")
    short = await summarize(app, strategy="extractive", max_words=6)

    assert short["summary"] == "The deploy of the web shop…"
    assert short["upserted_memory_id"] == long["upserted_memory_id"]
    assert await summarize(app, strategy="extractive") == long


async def test_a_summary_of_an_item_that_was_changed_since_says_what_it_says_now(app: App, ollama: Service) -> None:
    (changed,) = await push(app, "We deploy on Friday.")
    first = await summarize(app, strategy="extractive")
    by_model = await summarize(app, strategy="abstractive")
    await call(app, "update", {"memory_id": changed, "text": "We deploy on Monday."})
    second = await summarize(app, strategy="extractive")

    assert first["summary"] == "We deploy on Friday."
    assert second["summary"] == "We deploy on Monday."
    assert {each["upserted_memory_id"] for each in (first, by_model, second)} == {first["upserted_memory_id"]}
    await call(app, "update", {"memory_id": changed, "text": "We deploy on Sunday."})
    ollama.answers += [says(503, {"error": "busy"})] * TRIES
    # Without a model to write it again, an outdated summary is not returned.
    assert (await summarize(app))["summary"] == "We deploy on Sunday."


async def test_tags_that_were_changed_since_leave_the_summary_as_it_is(app: App, ollama: Service) -> None:
    (changed,) = await push(app, "We deploy on Friday.")
    first = await summarize(app)
    await call(app, "update", {"memory_id": changed, "tags": ["ops", "daily"]})

    assert await summarize(app) == first
    assert len(ollama.bodies) == 1


@pytest.mark.parametrize("ways", [("extractive", "extractive"), ("abstractive", "auto")])
async def test_items_that_the_limit_left_out_are_told(app: App, ways: tuple[str, str]) -> None:
    await push(app, *NOTES)

    assert (await summarize(app, limit=3, strategy=ways[0]))["notes"] == []
    for way in ways:
        (note,) = (await summarize(app, limit=2, strategy=way))["notes"]
        assert "the 2 oldest were summarized" in note
        assert "500" in note


async def test_a_model_that_nobody_configured_is_asked_only_by_a_call_that_wants_one(
    sqlite: Database, clock: ManualClock, tmp_path: Path, ollama: Service
) -> None:
    async with app_of(sqlite, clock, tmp_path, block()) as app:
        # As in the daemon: whatever listens at Ollama's default address on this machine.
        app.memories["notes"].summarizer = await open_client(by_ollama(ollama), {"url": ollama.url})
        await push(app, *NOTES)
        plain = await summarize(app)
        assert (plain["strategy"], plain["summary"], plain["notes"]) == ("extractive", EXTRACT, [])
        assert (ollama.bodies, ollama.looked) == ([], 0)

        asked = await summarize(app, strategy="abstractive")
        assert asked["summary"] == SAID
        assert "sent to ollama at its default address" in asked["notes"][0]


async def test_a_model_that_is_away_does_not_worsen_the_summary_that_is_there(app: App, ollama: Service) -> None:
    await push(app, *NOTES)
    first = await summarize(app)
    ollama.answers += [says(503, {"error": "busy"})] * TRIES
    second = await summarize(app, model="mistral")

    assert second["summary"] == first["summary"]
    assert second["model"] == "llama3.1:8b"
    assert "busy" in second["notes"][0]


async def test_calls_at_the_same_time_make_one_summary(app: App, ollama: Service) -> None:
    await push(app, *NOTES)
    done = await asyncio.gather(*(summarize(app) for _ in range(8)))

    assert len({each["upserted_memory_id"] for each in done}) == 1
    assert len(ollama.bodies) == 1


class _NoLocks(KeyedLock):
    """Locks that do not exclude each other, like those of two processes."""

    def of(self, key: object) -> Any:
        return KeyedLock().of(key)


async def test_processes_on_one_database_keep_one_summary(
    database: Database, clock: ManualClock, tmp_path: Path, ollama: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consolidation, "_locks", _NoLocks())
    memory = block(model=by_ollama(ollama))
    async with (
        app_of(database, clock, tmp_path / "one", memory) as one,
        app_of(database, clock, tmp_path / "other", memory) as other,
    ):
        await push(one, *NOTES)
        done = await asyncio.gather(*(summarize(each) for each in (one, other) * 3))

        assert len({each["upserted_memory_id"] for each in done}) == 1
        wanted = {"query_text": "deploy disk", "tags": ["summary"]}
        assert len((await call(other, "search", wanted))["hits"]) == 1


async def test_a_summary_whose_tags_were_changed_is_still_the_one(app: App) -> None:
    await push(app, *NOTES)
    first = await summarize(app)
    await call(app, "update", {"memory_id": first["upserted_memory_id"], "tags": ["mine"]})

    assert (await summarize(app))["upserted_memory_id"] == first["upserted_memory_id"]


async def test_a_summary_that_was_forgotten_is_made_again(app: App) -> None:
    await push(app, *NOTES)
    first = await summarize(app)
    await call(app, "forget", {"memory_id": first["upserted_memory_id"]})
    second = await summarize(app)

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
        ({"collection": "no such thing"}, "collection", "expected"),
    ],
    ids=str,
)
async def test_wrong_input_is_told_with_its_field_and_an_example(
    app: App, given: dict[str, Any], field: str, what: str
) -> None:
    await push(app, *NOTES)
    failed = await failing(summarize(app, **given))

    assert failed.code == "invalid_params"
    assert failed.field == field
    assert what in failed.message
    assert failed.example


async def test_a_missing_time_is_told_with_an_example(app: App) -> None:
    failed = await failing(call(app, "summarize", {}))

    assert (failed.code, failed.field) == ("invalid_params", "time_range")
    assert "required" in failed.message
    assert line(failed).endswith(
        'For example: {"time_range": {"start": "2026-11-01T00:00:00Z", "end": "2026-11-07T23:59:59Z"}}'
    )


async def test_nothing_to_summarise_is_told_with_what_was_asked_for(app: App, ollama: Service) -> None:
    failed = await failing(summarize(app, tags=["daily"], project_id="web"))

    assert (failed.code, failed.field) == ("invalid_params", "time_range")
    assert "no episodic item of the project web with one of the tags daily" in failed.message
    assert ollama.bodies == []


# The model is away.


async def test_abstractive_without_its_model_is_provider_unavailable(
    sqlite: Database, clock: ManualClock, tmp_path: Path
) -> None:
    away = Variant(name="ollama", options={"url": "http://localhost:1"})
    async with app_of(sqlite, clock, tmp_path, block(model=away)) as app:
        await push(app, *NOTES)
        failed = await failing(summarize(app, strategy="abstractive"))

        assert failed.code == "provider_unavailable"
        assert line(failed) == "provider_unavailable: the model ollama does not answer (check that it is running)"
        assert (await call(app, "search", {"query_text": "deploy", "tags": ["summary"]}))["hits"] == []


@pytest.mark.parametrize("model", [None, Variant(name="none")], ids=["undeclared", "none"])
async def test_abstractive_where_no_model_is_declared_is_provider_unavailable(
    sqlite: Database, clock: ManualClock, tmp_path: Path, model: Variant | None
) -> None:
    async with app_of(sqlite, clock, tmp_path, block(model=model)) as app:
        await push(app, *NOTES)
        failed = await failing(summarize(app, strategy="abstractive"))

        assert failed.code == "provider_unavailable"
        assert "summarize { model ollama }" in str(failed.hint)


async def test_another_provider_than_the_memorys_is_unavailable(app: App) -> None:
    await push(app, *NOTES)
    failed = await failing(summarize(app, strategy="abstractive", provider="openai"))

    assert failed.code == "provider_unavailable"
    fallen = await summarize(app, provider="openai")
    assert fallen["strategy"] == "extractive"
    assert "openai" in fallen["notes"][0]


async def test_a_model_that_is_not_there_is_told_with_how_to_get_it(app: App, ollama: Service) -> None:
    await push(app, *NOTES)
    ollama.answers += [says(404, {"error": "model 'x' not found"}) for _ in range(3)]
    named = await failing(summarize(app, strategy="abstractive", model="mistral"))
    own = await failing(summarize(app, strategy="abstractive"))
    fallen = await summarize(app)

    assert (named.code, named.field, named.hint) == ("invalid_params", "model", "ollama pull mistral")
    assert (own.code, own.hint) == ("provider_unavailable", "ollama pull llama3.1:8b")
    assert fallen["strategy"] == "extractive"
    assert "ollama pull llama3.1:8b" in fallen["notes"][0]


async def test_a_model_that_says_nothing_is_gone_without(app: App, ollama: Service) -> None:
    await push(app, *NOTES)
    ollama.answers += [text("  \n"), text("<think>hm</think>")]
    failed = await failing(summarize(app, strategy="abstractive"))
    fallen = await summarize(app)

    assert failed.code == "provider_unavailable"
    assert "gave an empty answer" in failed.message
    assert fallen["summary"] == EXTRACT
    assert "gave an empty answer" in fallen["notes"][0]


async def test_a_model_that_never_answers_is_gone_without(
    sqlite: Database, clock: ManualClock, tmp_path: Path, ollama: Service
) -> None:
    slow = by_ollama(ollama, timeout=timedelta(seconds=1))
    async with app_of(sqlite, clock, tmp_path, block(model=slow)) as app:
        await push(app, *NOTES)
        ollama.answers += [never] * TRIES

        assert (await summarize(app))["strategy"] == "extractive"


async def test_only_an_administrator_is_told_which_host_is_away(app: App, ollama: Service) -> None:
    await push(app, *NOTES, user="bob")
    ollama.answers += [says(500, {"error": "boom"})] * (2 * TRIES)
    asked = summarize(app, "bob", "read", "write", strategy="abstractive")
    failed = await failing(asked, caller=Caller("bob", frozenset({"write"})))
    fallen = await summarize(app, "bob", "read", "write")

    assert failed.code == "provider_unavailable"
    assert ollama.host not in f"{failed}{fallen}"
    assert fallen["notes"] == ["no language model was asked, or none answered"]


# The summary cannot be stored.


async def test_a_summary_that_cannot_be_kept_is_upsert_failed(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: Any, **__: Any) -> Any:
        raise StoreError("the disk is full", hint="make room")

    await push(app, *NOTES)
    monkeypatch.setattr(SqlCollectionStore, "_append", full)
    failed = await failing(summarize(app))

    assert (failed.code, failed.hint) == ("upsert_failed", "make room")


# Over HTTP.


async def test_it_is_served_over_http(app: App) -> None:
    await push(app, *NOTES)
    token = await app.token("owner", "admin")
    reply = await app.ask(token, "POST", "/v1/tools/summarize", {"time_range": DAY, "tags": "daily"})
    assert reply.status == 200, reply.body
    assert told(reply)["summary"] == SAID

    wrong = await app.ask(token, "POST", "/v1/tools/summarize", {"time_range": DAY, "limit": 0})
    assert wrong.status in {400, 422}
    assert "invalid_params" in wrong.body.decode()


def test_the_texts_of_these_tests_are_what_the_algorithm_makes() -> None:
    assert extract(NOTES, 250) == EXTRACT
