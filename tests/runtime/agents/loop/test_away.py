"""An agent whose model is away waits with its thread and without a worker; what a person must fix ends at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import first_of
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.scripted import Refusal, ScriptedModel, says

MISSING = 'model closed { service openai { url "https://model.example/v1" api_key "secret://env/NO_SUCH_KEY" } }'


@first_of("away", [503, 429, 500, Refusal(0)])
async def test_a_turn_waits_for_its_model_and_holds_its_thread(tmp_path: Path, away: Any) -> None:
    state = {"away": True}

    def answer(_: Any) -> Any:
        return away if state["away"] else says("I am back.")

    with ScriptedModel(answer) as model:
        async with acting(tmp_path, program(model)) as agent:
            first = await agent.send("One.")
            row = await agent.until(first, lambda row: row.state == "model_unavailable")
            assert row.ended is None
            second = await agent.send("Two.")
            async with asyncio.timeout(60):
                while agent.dispatcher.running:
                    await asyncio.sleep(0.02)
            assert [each.text for each in await agent.messages()] == ["One."]
            state["away"] = False
            assert await agent.end(first) == "answered"
            assert await agent.end(second) == "answered"
            said = [each.text for each in await agent.messages()]
    assert said == ["One.", "I am back.", "Two.", "I am back."]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_ends_the_turn_at_once(tmp_path: Path, status: int) -> None:
    with ScriptedModel(status) as model:
        async with acting(tmp_path, program(model)) as agent:
            turn = await agent.deliver({"number": 1})
            assert await agent.end(turn) == "failed"
            row = await agent.run(turn)
            assert row.state == "dead"
            assert await agent.events() == ["run_failed"]
        assert len(model.bodies) == 1


async def test_a_model_that_cannot_be_opened_is_waited_for_and_no_recorder(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model, models=MISSING, chosen="model closed")) as agent:
            turn = await agent.deliver({"number": 1})
            row = await agent.until(turn, lambda row: row.state == "model_unavailable")
            assert row.ended is None
            assert not list((tmp_path / "notes").rglob("*.md"))


async def test_a_fallback_answers_while_the_model_is_away(tmp_path: Path) -> None:
    with ScriptedModel(503) as first, ScriptedModel(says("I stand in.")) as second:
        other = second.block.replace("model scripted", "model other")
        text = program(first, models=other).replace('model "m" }', 'model "m" } fallback [other]', 1)
        async with acting(tmp_path, text) as agent:
            assert await agent.ask("Hello.") == "answered"
            assert (await agent.messages())[-1].text == "I stand in."
