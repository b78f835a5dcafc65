"""`summarize`: its acceptance criteria and every step of its specification, with a server that speaks Ollama."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.memory.item import Item
from runtime.memory.keyed_lock import KeyedLock
from runtime.memory.summary import consolidation
from runtime.memory.summary.extractive import extract
from runtime.models.calls.counted_calls import TRIES
from runtime.models.client import open_client
from tests.clocks import ManualClock
from tests.runtime.api.app import App, told
from tests.runtime.models.services import SAID, Service, says
from tests.runtime.tools.collection.summarize.summarizing import (
    DAY,
    EXTRACT,
    NOTES,
    app_of,
    block,
    by_ollama,
    call,
    later,
    push,
    summarize,
)

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
