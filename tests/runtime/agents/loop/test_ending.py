"""How a run of an agent with a model ends, and what its thread says about it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from runtime.threads.events.deltas import Delta
from runtime.threads.run import ENDED
from runtime.webhooks.deliveries.redelivery import redeliver
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.scripted import ScriptedModel, calling, says

TOOLS = 'tools ["memory_*"]'
APPEND = {"label": "human", "content": "Ada likes tea."}


async def test_a_message_is_answered(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello Ada.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Hello.") == "answered"
            found = await agent.messages()
    assert [(each.role, each.text) for each in found] == [("user", "Hello."), ("assistant", "Hello Ada.")]


async def test_done_ends_a_turn_after_the_calls_beside_it(tmp_path: Path) -> None:
    with ScriptedModel(says("Noted.", done={}, memory_append=APPEND)) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("I like tea.") == "done"
            assert "Ada likes tea." in await agent.block()
            assert [each[:2] for each in await agent.outputs()] == [("memory_append", "ok")]
        assert len(model.bodies) == 1


async def test_done_does_not_end_a_turn_whose_other_calls_were_not_run(tmp_path: Path) -> None:
    broken = '{"messages": [], "tool_calls": [{"name": "done", "args": {}}, {"name": "memory_append", "args": {"label'
    with ScriptedModel(broken, broken, broken, says("I could not note it.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("I like tea.") == "answered"


async def test_a_turn_with_too_many_steps_says_where_it_stands_without_tools(tmp_path: Path) -> None:
    replies = [says(memory_search={"query": str(number)}) for number in range(3)]
    with ScriptedModel(*replies, says("Half of it is done.")) as model:
        async with acting(tmp_path, program(model, f"max_steps 3 {TOOLS}")) as agent:
            assert await agent.ask("Search.") == "max_steps"
            found = await agent.messages()
            assert (await agent.events()) == ["run_max_steps"]
        assert len(model.bodies) == 4
        assert "Say where you stand" in model.texts(3)
        assert "memory_search:" not in model.texts(3).split("<tool_output")[0].split("<tools>")[-1]
    assert found[-2].text == "Half of it is done."


async def test_the_last_request_has_no_calls_because_it_offers_no_tools(tmp_path: Path) -> None:
    """Anthropic refuses a request with calls and without tools."""
    with ScriptedModel(calling(("memory_search", {"query": "tea"})), "Half of it is done.") as model:
        async with acting(tmp_path, program(model, f"max_steps 1 tool_calling native {TOOLS}")) as agent:
            assert await agent.ask("Search.") == "max_steps"
        last = model.bodies[-1]
        assert "tools" not in last
        assert all("tool_calls" not in message and message["role"] != "tool" for message in last["messages"])
        assert '<tool_call name="memory_search">' in model.texts(1)


@pytest.mark.parametrize("calls", [1, 3])
async def test_the_same_call_with_the_same_outcome_in_three_steps_ends_a_turn(tmp_path: Path, calls: int) -> None:
    search = {"name": "memory_search", "args": {"query": "tea"}}
    reply = json.dumps({"messages": [], "tool_calls": [search] * calls})
    with ScriptedModel(reply) as model:
        async with acting(tmp_path, program(model, TOOLS)) as agent:
            assert await agent.ask("Search.") == "repeated"
            assert await agent.events() == ["run_repeated"]
            # Calls of one reply are one.
            assert len(await agent.outputs()) == 3 * calls
        assert len(model.bodies) == 3


async def test_calls_whose_outcome_changes_are_no_repetition(tmp_path: Path) -> None:
    with ScriptedModel(*[says(memory_append=APPEND)] * 4, says("Noted four times.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Note it.") == "answered"


async def test_a_reply_that_says_nothing_on_purpose_ends_the_turn_as_done(tmp_path: Path) -> None:
    with ScriptedModel(says()) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Nothing to do.") == "done"
            assert await agent.events() == []


@pytest.mark.parametrize("calling_by", ["json", "native"])
async def test_empty_replies_fail_the_turn_and_the_thread_says_so(tmp_path: Path, calling_by: str) -> None:
    with ScriptedModel(calling() if calling_by == "native" else "") as model:
        async with acting(tmp_path, program(model, f"tool_calling {calling_by}")) as agent:
            assert await agent.ask("Hello.") == "failed"
            assert await agent.events() == ["run_failed"]
            assert "replies were empty" in (await agent.messages())[-1].text
        assert len(model.bodies) == 3


async def test_half_a_megabyte_of_text_is_a_message(tmp_path: Path) -> None:
    with ScriptedModel("word " * 100_000) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Talk.") == "answered"
            assert await agent.ask("Again.") == "answered"
            assert len((await agent.messages())[1].text) >= 499_999


@pytest.mark.parametrize("calling_by", ["json", "native"])
async def test_half_a_megabyte_in_a_call_is_refused_by_the_tool_and_cut_in_the_context(
    tmp_path: Path, calling_by: str
) -> None:
    given = {"label": "human", "content": "word " * 100_000}
    first = calling(("memory_append", given)) if calling_by == "native" else says(memory_append=given)
    last = calling(text="Too long.") if calling_by == "native" else says("Too long.")
    with ScriptedModel(first, last) as model:
        async with acting(tmp_path, program(model, f"tool_calling {calling_by}")) as agent:
            assert await agent.ask("Note it.") == "answered"
            [(_, status, text)] = await agent.outputs()
            assert await agent.block() == ""
        assert (status, "limit is 20,000" in text) == ("error", True)
        assert len(json.dumps(model.bodies[1])) < 60_000


async def test_a_reply_in_typographic_quotes_is_read_and_its_calls_run(tmp_path: Path) -> None:
    reply = re.sub(r'"([^"]*)"', r"“\1”", says("Noted.", memory_append=APPEND, done={}))
    assert '"' not in reply
    with ScriptedModel(reply) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("I like tea.") == "done"
            assert "Ada likes tea." in await agent.block()
        assert len(model.bodies) == 1


async def test_native_calls_are_made_and_answered(tmp_path: Path) -> None:
    replies = [calling(("memory_append", APPEND)), calling(text="Noted.")]
    with ScriptedModel(*replies) as model:
        async with acting(tmp_path, program(model, "tool_calling native")) as agent:
            assert await agent.ask("I like tea.") == "answered"
            assert "Ada likes tea." in await agent.block()
        sent = model.bodies[1]["messages"]
        called = [call["id"] for message in sent for call in message.get("tool_calls") or ()]
        assert called
        assert called == [message["tool_call_id"] for message in sent if message["role"] == "tool"]


async def test_a_correction_of_native_calls_is_told_as_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = calling(("memory_append", APPEND), text="Noting it.")
    broken["message"]["tool_calls"][0]["function"]["arguments"] = '{"label": "human", "content": Ada likes'
    with ScriptedModel(broken, says("I noted it.", memory_append=APPEND), calling(text="Bye.")) as model:
        async with acting(tmp_path, program(model, "tool_calling native")) as agent:
            parts = list[Delta]()
            monkeypatch.setattr(agent.services.deltas, "publisher", lambda _run: parts.append)
            assert await agent.ask("I like tea.") == "answered"
        assert len(model.bodies) == 3
    assert "".join(part.data["text"] for part in parts) == "Noting it.I noted it.Bye."


async def test_every_native_call_of_earlier_turns_has_its_output(tmp_path: Path) -> None:
    replies = [calling(("memory_append", APPEND), ("done", {}), text="Noted."), calling(text="Hello.")]
    with ScriptedModel(*replies) as model:
        async with acting(tmp_path, program(model, "tool_calling native")) as agent:
            assert await agent.ask("I like tea.") == "done"
            assert await agent.ask("Hello.") == "answered"
        sent = model.bodies[1]["messages"]
        called = [call["id"] for message in sent for call in message.get("tool_calls") or ()]
        assert len(called) == 2
        assert called == [message["tool_call_id"] for message in sent if message["role"] == "tool"]


async def test_a_dead_letter_that_is_sent_again_says_each_time_how_it_ended(tmp_path: Path) -> None:
    with ScriptedModel(401) as model:
        async with acting(tmp_path, program(model)) as agent:
            turn = await agent.deliver({"number": 1})
            assert await agent.end(turn) == "failed"
            await redeliver(agent.app.state.database, agent.app.state.clock, turn)
            agent.dispatcher.wake()
            await agent.until(turn, lambda row: row.state in ENDED and row.attempt == 2)
            assert await agent.events() == ["run_failed", "run_failed"]
