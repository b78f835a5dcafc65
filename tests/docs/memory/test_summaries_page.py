"""The page of summaries: its example is a real response, its prompt is the sent one, its table is the tool's."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.memory import Memory, Summarize
from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.identity.caller import Caller
from runtime.memory.summary.abstractive import MOST_CHARACTERS
from runtime.models.ollama import OllamaOptions
from runtime.models.openai import OpenAIOptions
from runtime.models.reachability import REACHABLE_SECONDS
from runtime.tools import TOOLS
from runtime.tools.failure import CODES
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App
from tests.runtime.models.services import serving

PAGE = (Path(__file__).parents[3] / "docs" / "summaries.md").read_text(encoding="utf-8")
REQUEST, ANSWER = (json.loads(text) for text in re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
PROMPT = re.findall(r"^```text\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)[0]
SYSTEM = " ".join(re.findall(r"^> (.*)$", PAGE, re.MULTILINE))
NOTES = [line.removeprefix("- 2026-02-14 ") for line in PROMPT.splitlines()[2:]]


@pytest.mark.parametrize("by_model", [False, True])
async def test_the_example_is_what_is_answered_and_the_prompt_what_is_sent(
    tmp_path: Path, clock: ManualClock, by_model: bool
) -> None:
    database = await Database.open(with_keys(tmp_path / "symbiont.db", KEY), KEY)
    async with serving("ollama") as service:
        choice = Variant(name="ollama", options={"url": service.url}) if by_model else Variant(name="none")
        block = Memory(name="notes", store=Variant(name="collection"), summarize=Summarize(model=choice))
        async with App(database, clock).remembering(tmp_path, block) as app:
            context = app.context(Caller("owner", frozenset({"read", "write", "admin"})))
            for note in NOTES:
                pushed = {"text": note, "memory_type": "episodic", "tags": ["daily"]}
                await TOOLS["push"].call(context, pushed)
                clock.advance(60)
            told: dict[str, Any] = (await TOOLS["summarize"].call(context, REQUEST)).model_dump(mode="json")
    await database.close()

    if by_model:
        assert [message["content"] for message in service.bodies[0]["messages"]] == [SYSTEM, PROMPT]
        return
    assert len(told["source_memory_ids"]) == len(ANSWER["source_memory_ids"])
    ids = {"source_memory_ids": None, "upserted_memory_id": None}
    assert {**told, **ids} == {**ANSWER, **ids}
    assert list(told) == list(ANSWER)


def test_every_parameter_is_in_the_table_with_its_default() -> None:
    tool = TOOLS["summarize"]
    rows = {
        name: (set(re.findall(r"`(\w+)`", aliases)), default.strip("` "))
        for name, aliases, default in re.findall(r"^\| `(\w+)`([^|]*)\| ([^|]*)\|", PAGE, re.MULTILINE)
        if name not in CODES
    }
    assert set(rows) == set(tool.parameters.model_fields)
    for name, (aliases, default) in rows.items():
        assert {alias for alias, of in tool.aliases.items() if of == name} == aliases
        declared = tool.parameters.model_fields[name].default
        if declared not in (None, []) and not tool.parameters.model_fields[name].is_required():
            assert default == str(declared)


def test_every_kind_of_failure_is_told() -> None:
    assert set(re.findall(r"^\| `(\w+)` \| [^|]* \|$", PAGE, re.MULTILINE)) == set(CODES) - {
        "conflict",
        "quota_exceeded",
        "rate_limited",
    }


def test_the_bounds_on_the_page_are_those_of_the_code() -> None:
    assert f"{MOST_CHARACTERS:,} characters" in PAGE
    assert f"{REACHABLE_SECONDS:g} seconds" in PAGE
    assert OllamaOptions.model_fields["timeout"].default == timedelta(minutes=2)
    assert OpenAIOptions.model_fields["timeout"].default == timedelta(minutes=1)
    assert f"`{OllamaOptions.model_fields['model'].default}`" in PAGE


def test_the_day_of_the_example_is_the_tests() -> None:
    assert datetime.fromtimestamp(ManualClock().now(), UTC).date().isoformat() == "2026-02-14"
