"""Replies that are odd in what they contain, and what the run does with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.scripted import Given, Refusal, ScriptedModel, calling, cut_off, says

TASKS = 'tools ["task_*" archival_search archival_insert]'


@pytest.mark.parametrize("native", [False, True], ids=["json", "native"])
async def test_equal_calls_of_one_reply_run_once_and_share_the_output(tmp_path: Path, native: bool) -> None:
    calls = [{"name": "task_create", "args": {"title": "Call Ada"}}] * 9
    reply = calling(*[("task_create", {"title": "Call Ada"})] * 9) if native else json.dumps({"tool_calls": calls})
    with ScriptedModel(reply, "Done." if native else says("Done.")) as model:
        more = f"{TASKS} tool_calling {'native' if native else 'json'}"
        async with acting(tmp_path, program(model, more)) as agent:
            assert await agent.ask("Remind me to call Ada.") == "answered"
            outputs = await agent.outputs()
    assert len(outputs) == 9
    assert len({text for _, _, text in outputs}) == 1


async def test_equal_reads_of_one_reply_are_one_step_for_the_guard(tmp_path: Path) -> None:
    calls = [{"name": "archival_search", "args": {"query": "tea"}}] * 3
    with ScriptedModel(json.dumps({"messages": [], "tool_calls": calls}), says("Nothing.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("What about tea?") == "answered"


async def test_equal_calls_in_three_steps_are_a_repetition(tmp_path: Path) -> None:
    with ScriptedModel(says(archival_search={"query": "tea"})) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("What about tea?") == "repeated"
    assert len(model.bodies) == 3


@pytest.mark.parametrize(
    "reply",
    [
        {"message": {"role": "assistant", "content": "", "reasoning_content": "Hmm. " * 50}, "finish_reason": "length"},
        cut_off("<think>Hmm. Hmm."),
    ],
)
async def test_reasoning_that_used_up_the_reply_is_said_and_not_asked_again(tmp_path: Path, reply: object) -> None:
    with ScriptedModel(reply) as model:  # type: ignore[arg-type]
        async with acting(tmp_path, program(model, "context { reply_tokens 300 }")) as agent:
            turn = await agent.send("hello?")
            assert await agent.end(turn) == "failed"
            error = (await agent.run(turn)).error
    assert "used all 300 tokens of its reply for its reasoning" in error
    assert "context { reply_tokens }" in error
    assert len(model.bodies) == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"messages": ["Stored it."], "tool_calls": [{"nme": "archival_insert", "args": {"content": "tea"}}]},
        {"messages": ["Stored it."], "tool_calls": [{"do": {"archival": 5}}]},
        {"messages": 5, "tool_calls": []},
    ],
)
async def test_an_odd_call_or_message_is_corrected_and_not_dropped(tmp_path: Path, odd: object) -> None:
    right = says("Stored it.", archival_insert={"content": "tea"})
    with ScriptedModel(json.dumps(odd), right, says("Good.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Remember that I like tea.") == "answered"
            assert [(name, status) for name, status, _ in await agent.outputs()] == [("archival_insert", "ok")]
    assert "required form" in model.texts(1)


async def test_the_tool_done_may_be_listed(tmp_path: Path) -> None:
    with ScriptedModel(says("Bye.", done={})) as model:
        async with acting(tmp_path, program(model, "tools [done archival_search]")) as agent:
            assert await agent.ask("Bye.") == "done"


def failed(generation: str) -> ScriptedModel:
    """Return a model whose service refuses its first reply."""
    return ScriptedModel(Refusal(400, "Failed to call a function", {"failed_generation": generation}), says("Stored."))


async def test_a_reply_that_the_service_could_not_read_is_corrected(tmp_path: Path) -> None:
    text = 'I store it: {"messages": ["Stored."], "tool_calls": ['
    with failed(text) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("hello?") == "answered"
    assert text in model.texts(1)
    with failed("") as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("hello?") == "answered"
    assert "could not be read" in model.texts(1)


async def test_the_fallback_is_asked_after_replies_that_the_service_could_not_read(tmp_path: Path) -> None:
    broken = Refusal(400, "Failed to generate JSON", {"failed_generation": ""})
    with ScriptedModel(broken) as model, ScriptedModel(says("By another.")) as other:
        models = model.block.replace("service openai", "fallback [other] service openai") + other.block.replace(
            "scripted", "other"
        )
        text = program(model).replace(model.block, models)
        async with acting(tmp_path, text) as agent:
            assert await agent.ask("hello?") == "answered"
            assert (await agent.messages())[-1].text == "By another."
    assert (len(model.bodies), len(other.bodies)) == (3, 1)


async def test_what_a_service_wants_back_is_sent_back_to_it_alone_during_the_run(tmp_path: Path) -> None:
    details = [
        {
            "type": "reasoning.text",
            "text": "I search.",
            "signature": "Et8B",
            "format": "anthropic-claude-v1",
            "index": 0,
        },
        {"type": "reasoning.encrypted", "data": "AA==", "id": "c0", "index": 1},
    ]
    signed = calling(("archival_search", {"query": "tea"}))
    signed["message"] |= {"reasoning_content": "I search.", "reasoning_details": details}
    signed["message"]["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "sig"}}
    asked, stopped, away = Event(), Event(), Event()

    def hold(_: object) -> str:
        asked.set()
        stopped.wait(60)
        return "Too late."

    def fail(_: object) -> Given:
        return "Still nothing." if away.is_set() else 503

    def stand_in(_: object) -> Given:
        away.set()
        return calling(("archival_search", {"query": "coffee"}))

    with ScriptedModel(signed, hold, fail) as model, ScriptedModel(stand_in) as other:
        models = model.block.replace("service openai", "fallback [other] service openai")
        text = program(model, "tool_calling native").replace(
            model.block, models + other.block.replace("scripted", "other")
        )
        async with acting(tmp_path, text) as agent:
            turn = await agent.send("What about tea?")
            await asyncio.to_thread(asked.wait, 60)
        stopped.set()
        async with acting(tmp_path, text) as agent:
            assert await agent.end(turn) == "answered"
            assert await agent.ask("And now?") == "answered"
    before, restarted, during, after = (_calling(model.bodies[number]) for number in (1, 2, -2, -1))
    for [own, *others] in (before, restarted, during):
        assert (own["reasoning_content"], own["reasoning_details"]) == ("I search.", details)
        assert own["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "sig"}}
        assert "I search." not in json.dumps(others)
    assert len(during) == 2
    for body in (*other.bodies, {"messages": after}):
        sent = json.dumps(body)
        assert "archival_search" in sent
        assert not any(each in sent for each in ("I search.", "reasoning_details", "extra_content", "AA=="))


def _calling(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [each for each in body["messages"] if each.get("tool_calls")]
