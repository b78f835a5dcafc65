"""Contexts fit into the window of the model: what is too large is cut or summarized, and nothing is lost."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from runtime.agents.loop.inputs import LONGEST_PAYLOAD
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.scripted import Refusal, ScriptedModel, calling, says

SMALL = "context { max_tokens 3000 reply_tokens 400 }"
FULL = 'tools ["memory_append"] context { compaction_threshold 1 }'
TOO_LONG = Refusal(400, "This model's maximum context length is 2000 tokens.")


def size(body: Any) -> int:
    return sum(len(message["content"]) for message in body["messages"])


def is_summary(body: Any) -> bool:
    """Return True for the request of a summarizer."""
    return "You keep the summary" in body["messages"][0]["content"]


def scribe(body: Any) -> str:
    """Reply as a summarizer to a summarizer's request, else as an agent."""
    if is_summary(body):
        return "They talked about tea."
    return says("I see. " + "word " * 100)


@pytest.mark.parametrize(
    "refusal",
    [
        TOO_LONG,
        Refusal(413, "Request body too large for m model. Max size: 8000 tokens."),
        Refusal(413, ""),
        Refusal(500, "prompt too long; exceeded max context length by 1204 tokens"),
    ],
)
async def test_a_context_that_exceeds_the_window_is_built_smaller_once(tmp_path: Path, refusal: Refusal) -> None:
    with ScriptedModel(says("word " * 1500), refusal, says("Shorter.")) as model:
        async with acting(tmp_path, program(model, FULL)) as agent:
            assert await agent.ask("Talk.") == "answered"
            assert await agent.ask("Again. " + "word " * 1500) == "answered"
        assert len(model.bodies) == 3
        assert size(model.bodies[2]) < size(model.bodies[1])


async def test_the_window_that_a_refusal_says_holds_from_then_on(tmp_path: Path) -> None:
    refused = []

    def small(body: Any) -> str | Refusal:
        # About four characters a token.
        if size(body) // 4 + body["max_tokens"] > 4096:
            refused.append(body)
            return Refusal(400, "This model's maximum context length is 4096 tokens. However, you requested more.")
        return scribe(body)

    with ScriptedModel(small) as model:
        async with acting(tmp_path, program(model)) as agent:
            for number in range(12):
                assert await agent.ask(f"Talk of {number}. " + "kettle " * 200) == "answered"
    assert len(refused) == 1


async def test_a_window_that_is_always_too_small_ends_the_turn(tmp_path: Path) -> None:
    with ScriptedModel(TOO_LONG) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Talk. " + "word " * 500) == "failed"
            assert await agent.events() == ["run_failed"]
        assert len(model.bodies) == 2


async def test_an_instruction_that_leaves_no_room_ends_the_turn_without_a_call(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        text = program(model, SMALL).replace("You help.", "word " * 3000)
        async with acting(tmp_path, text) as agent:
            assert await agent.ask("Hello.") == "failed"
            assert "instruction" in (await agent.messages())[-1].text
        assert model.bodies == []


async def test_the_ratio_of_tokens_is_learnt_from_the_usage(tmp_path: Path) -> None:
    with ScriptedModel(scribe) as model:
        model.letters = 1
        async with acting(tmp_path, program(model, SMALL)) as agent:
            for number in range(4):
                assert await agent.ask(f"{number} " + "word " * 200) == "answered"
    asked = [size(body) for body in model.bodies if not is_summary(body)]
    # The first request was estimated; the others fit, as the service counts.
    assert all(each <= 2600 for each in asked[1:])


async def test_an_oversized_input_is_cut_in_the_context_and_whole_in_the_thread(tmp_path: Path) -> None:
    text = "begin " + "word " * 40_000 + "end"
    with ScriptedModel(says("Long.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask(text) == "answered"
            assert (await agent.messages())[0].text == text
        assert "characters are left out here" in model.texts(0)
        assert size(model.bodies[0]) < 40_000


async def test_an_oversized_output_is_whole_in_the_thread(tmp_path: Path) -> None:
    content = "".join(f"Line {number} of a long note.\n" for number in range(1500))
    made = [says(memory_append={"label": "notes", "content": content}), says(agent_block_show={"label": "notes"})]
    more = 'tools ["memory_append" "agent_block_show"] block notes { char_limit 100000 }'
    with ScriptedModel(*made, says("Shown.")) as model:
        async with acting(tmp_path, program(model, more)) as agent:
            assert await agent.ask("Note and show it.") == "answered"
            [_, (_, status, text)] = await agent.outputs()
    assert status == "ok"
    assert json.loads(text)["value"].strip() == content.strip()


async def test_a_long_conversation_is_summarized_in_a_chain_and_stays_in_the_thread(tmp_path: Path) -> None:
    with ScriptedModel(scribe) as model:
        async with acting(tmp_path, program(model, SMALL)) as agent:
            for number in range(30):
                assert await agent.ask(f"Question {number}. " + "word " * 60) == "answered"
            thread = await agent.main()
            assert thread.summary_count > 1
            newest = await agent.services.summaries.latest(thread)
            found = await agent.messages()
    assert newest is not None
    assert newest.previous_id is not None
    assert newest.text == "They talked about tea."
    assert newest.embedding is not None
    assert len(newest.embedding) % 4 == 0
    assert newest.embedding_model
    assert [each.position for each in found] == list(range(60))
    asked = [body for body in model.bodies if not is_summary(body)]
    assert "They talked about tea." in str(asked[-1])
    assert "Question 29" in str(asked[-1])


async def test_nothing_is_lost_while_the_summarizer_is_away(tmp_path: Path) -> None:
    away = [True]

    def answer(body: Any) -> Any:
        if is_summary(body) and away[0]:
            return 401
        return scribe(body)

    with ScriptedModel(answer) as model:
        async with acting(tmp_path, program(model, SMALL)) as agent:
            for number in range(14):
                assert await agent.ask(f"Question {number}. " + "word " * 60) == "answered"
            assert (await agent.main()).summary_count == 0
            away[0] = False
            assert await agent.ask("Now.") == "answered"
            summary = await agent.services.summaries.latest(await agent.main())
            assert summary is not None
            assert summary.first_position == 0
    told = [str(body) for body in model.bodies if is_summary(body)]
    assert "Question 0" in "".join(told[-3:])


async def test_a_summary_that_would_not_shrink_is_not_used(tmp_path: Path) -> None:
    def answer(body: Any) -> str:
        if is_summary(body):
            return "word " * 4000
        return says("Yes.")

    with ScriptedModel(answer) as model:
        more = f"{SMALL} summarizer {{ max_words 5000 }}"
        async with acting(tmp_path, program(model, more)) as agent:
            for number in range(12):
                assert await agent.ask(f"Question {number}. " + "word " * 150) == "answered"
            assert (await agent.main()).summary_count == 0


async def test_a_payload_of_any_size_is_a_message_of_bounded_size(tmp_path: Path) -> None:
    with ScriptedModel(says("Large.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.end(await agent.deliver({"text": f"begin {'x' * 600_000} end"})) == "answered"
            text = (await agent.messages())[0].text
    assert "begin xxx" in text
    assert text.rstrip().endswith('xxx end"}')
    assert "characters left out" in text
    assert LONGEST_PAYLOAD <= len(text) < LONGEST_PAYLOAD + 1000


async def test_a_correction_after_a_window_error_asks_with_the_smaller_context(tmp_path: Path) -> None:
    with ScriptedModel(says("word " * 1500), TOO_LONG, "", says("Shorter.")) as model:
        async with acting(tmp_path, program(model, FULL)) as agent:
            assert await agent.ask("Talk.") == "answered"
            assert await agent.ask("Again. " + "word " * 1500) == "answered"
        assert len(model.bodies) == 4
        assert size(model.bodies[3]) < size(model.bodies[1])


async def test_a_summary_that_exceeds_its_window_is_asked_for_with_less_once(tmp_path: Path) -> None:
    asked: list[int] = []

    def answer(body: Any) -> Any:
        if not is_summary(body):
            return says("I see. " + "word " * 100)
        asked.append(size(body))
        return TOO_LONG if len(asked) == 1 else "They talked about tea."

    with ScriptedModel(answer) as model:
        other = f'model other {{ service openai {{ url "{model.url}" model "n" }} window 1300 }}'
        async with acting(tmp_path, program(model, f"{SMALL} summarizer {{ model other }}", other)) as agent:
            for number in range(10):
                assert await agent.ask(f"Question {number}. " + "word " * 60) == "answered"
            assert (await agent.main()).summary_count > 0
    assert asked[1] < asked[0]


@pytest.mark.parametrize("calling_by", ["json", "native"])
async def test_a_summary_is_made_of_what_was_said_and_called(tmp_path: Path, calling_by: str) -> None:
    def answer(body: Any) -> Any:
        if is_summary(body):
            return "They talked about tea."
        done = "<tool_output" in str(body["messages"][-1]["content"]) or body["messages"][-2]["role"] == "tool"
        text = "I see. " + "word " * 150
        if calling_by == "json":
            return says(text) if done else says(text, memory_list={"limit": 5})
        return calling(text=text) if done else calling(("memory_list", {"limit": 5}), text=text)

    with ScriptedModel(answer) as model:
        more = f'{SMALL} tool_calling {calling_by} tools ["memory_list"]'
        async with acting(tmp_path, program(model, more)) as agent:
            for number in range(8):
                assert await agent.ask(f"Question {number}. " + "word " * 60) == "answered"
        told = "\n".join(body["messages"][1]["content"] for body in model.bodies if is_summary(body))
    assert "user: Question 0." in told
    assert "assistant: I see." in told
    assert '<tool_call name="memory_list">' in told
    assert "tool: <tool_output>" in told


async def test_without_a_model_a_summary_has_sentences_of_old_and_of_new_messages(tmp_path: Path) -> None:
    with ScriptedModel(lambda body: says("I see.", memory_list={"limit": 5})) as model:
        more = f'{SMALL} tools ["memory_list"] max_steps 1 summarizer {{ model none max_words 40 }}'
        async with acting(tmp_path, program(model, more)) as agent:
            for number in range(24):
                await agent.ask(f"My friend number{number} likes tea number{number}." + " And so on." * 40)
            chain = await agent.services.summaries.chain(await agent.main())
        assert not any(map(is_summary, model.bodies))
    assert len(chain) > 2
    assert all(len(each.text.split()) <= 40 for each in chain)
    assert all("number0" in each.text for each in chain)
    newest = [max(map(int, re.findall(r"number(\d+)", each.text))) for each in chain]
    assert newest == sorted(newest)
    assert newest[-1] > 3
    assert not any(mark in each.text for each in chain for mark in ("tool_calls", "<tool_output"))


async def test_a_summary_that_would_not_shrink_is_asked_for_once_in_a_run(tmp_path: Path) -> None:
    def answer(body: Any) -> str:
        if is_summary(body):
            return "word " * 4000
        done = str(body["messages"][-1]["content"]).count("<tool_output")
        return says("Yes.") if done > 3 else says("I look.", memory_list={"limit": done + 1})

    with ScriptedModel(answer) as model:
        more = f'{SMALL} tools ["memory_list"] summarizer {{ max_words 5000 }}'
        async with acting(tmp_path, program(model, more)) as agent:
            await agent.ask("Talk. " + "word " * 900)
            summaries = sum(map(is_summary, model.bodies))
            await agent.ask("Talk again. " + "word " * 900)
        assert summaries <= 1
        assert 1 <= sum(map(is_summary, model.bodies)) <= 2
