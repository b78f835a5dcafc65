"""`summarize` with wrong input, without its model, and when the summary cannot be stored."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.identity.caller import Caller
from runtime.memory.collection.store import CollectionStore
from runtime.memory.errors import StoreError
from runtime.models.calls.counted_calls import TRIES
from tests.cases import each_case
from tests.clocks import ManualClock
from tests.runtime.api.app import App
from tests.runtime.models.services import Service, never, says, text
from tests.runtime.tools.asking import line
from tests.runtime.tools.collection.summarize.summarizing import (
    DAY,
    EXTRACT,
    NOTES,
    app_of,
    block,
    by_ollama,
    call,
    failing,
    push,
    summarize,
)

# Bad input.


@each_case(
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
        ({"model": ""}, "model", "it is empty"),
        ({"tags": [" "]}, "tags.0", "blank"),
        ({"memory_type": "mood"}, "memory_type", "episodic"),
        ({"score_threshold": -1}, "score_threshold", "greater"),
        ({"score_threshold": 2}, "score_threshold", "less"),
        ({"collection": "no such thing"}, "collection", "expected"),
    ],
)
async def test_wrong_input_is_told_with_its_field_and_an_example(
    app: App, given: dict[str, Any], field: str, what: str
) -> None:
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
    monkeypatch.setattr(CollectionStore, "_append", full)
    failed = await failing(summarize(app))

    assert (failed.code, failed.hint) == ("upsert_failed", "make room")
