"""What the service of a model refused ends its own run only, whatever thread, step or database it is in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.database.schema import OWNER
from runtime.threads.run import failing_threads
from runtime.webhooks.deliveries.redelivery import redeliver
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import Given, Refusal, Reply, ScriptedModel, says

BAD = "BADWORD"
_FILTERED = Refusal(400, f"content_filter: {BAD} is against the content policy")


def filtering(*replies: Given) -> ScriptedModel:
    """Return a model whose service refuses each request with `BAD`; else it gives `replies`, the last one again."""
    left = list(replies) or [says("Fine.")]

    def reply(body: Mapping[str, Any]) -> Given:
        if BAD in json.dumps(body["messages"]):
            return _FILTERED
        return left.pop(0) if len(left) > 1 else left[0]

    return ScriptedModel(reply)


async def errors(agent: Acting, turn_id: str) -> str:
    assert await agent.end(turn_id) == "failed"
    return str((await agent.run(turn_id)).error)


async def test_a_delivery_that_is_refused_ends_alone(tmp_path: Path) -> None:
    with filtering() as model:
        async with acting(tmp_path, program(model)) as agent:
            assert "refuses what the request says" in await errors(agent, await agent.deliver({"text": f"{BAD} here"}))
            assert await agent.end(await agent.deliver({"text": "harmless"})) == "answered"
            assert await agent.ask("hello?") == "answered"
            assert BAD in (await agent.messages())[0].text
    last = model.texts(-1)
    assert last.count("A message was refused by the model's service") == 1
    assert BAD not in last
    assert "harmless" in last


async def test_a_message_that_is_refused_ends_alone_after_a_restart_too(tmp_path: Path) -> None:
    with filtering() as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("I like tea.") == "answered"
            assert await agent.ask(f"say {BAD}") == "failed"
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("What do I like?") == "answered"
    assert "I like tea." in model.texts(-1)


async def test_only_the_output_that_is_refused_is_left_out_of_a_run_that_went_further(tmp_path: Path) -> None:
    search = says(conversation_search={"query": "word"})
    with filtering(search, says("Fine.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            other = await agent.services.threads.conversation(OWNER, "helper")
            assert await agent.ask(f"the word is {BAD}", thread=other) == "failed"
            assert await agent.ask("Which word?") == "failed"
            assert await agent.ask("hello?") == "answered"
    last = model.texts(-1)
    assert "Which word?" in last
    assert "This output was refused by the model's service" in last


@pytest.mark.parametrize("calling", ["json", "native"])
async def test_a_summary_is_not_asked_about_what_was_refused(tmp_path: Path, calling: str) -> None:
    small = f"tool_calling {calling} tools [archival_search] context {{ max_tokens 2048 compaction_threshold 0.5 }}"
    reply: Reply = says("Fine." + " so" * 60) if calling == "json" else "Fine." + " so" * 60
    with filtering(reply) as model:  # type: ignore[arg-type]
        async with acting(tmp_path, program(model, small)) as agent:
            assert await agent.ask(f"say {BAD}") == "failed"
            for number in range(8):
                assert await agent.ask(f"{number}" + " words" * 100) == "answered"
            assert (await agent.services.threads.get((await agent.main()).id, user_id=OWNER)).summary_count
    assert sum(BAD in json.dumps(body) for body in model.bodies) == 1


async def test_what_was_refused_is_asked_again_when_its_delivery_is_sent_again(tmp_path: Path) -> None:
    refuses = [True]

    def reply(_body: Mapping[str, Any]) -> Given:
        return _FILTERED if refuses[0] else says("Fine.")

    with ScriptedModel(reply) as model:
        async with acting(tmp_path, program(model)) as agent:
            delivery = await agent.deliver({"text": "stand-up at ten"})
            assert await agent.end(delivery) == "failed"
            refuses[0] = False
            await redeliver(agent.app.state.database, agent.app.state.clock, delivery)
            agent.dispatcher.wake()
            await agent.until(delivery, lambda row: row.ended == "answered")
            assert await agent.ask("hello?") == "answered"
    assert all("stand-up at ten" in model.texts(number) for number in (-2, -1))


async def test_a_withheld_reply_is_a_refusal(tmp_path: Path) -> None:
    withheld = {"message": {"role": "assistant", "content": None}, "finish_reason": "content_filter"}
    with ScriptedModel(withheld, withheld, withheld, says("Fine.")) as model:
        model.tells = False
        async with acting(tmp_path, program(model)) as agent:
            assert "withheld the reply" in await errors(agent, await agent.send("say something"))
            assert await agent.ask("hello?") == "answered"
    assert "say something" not in model.texts(-1)


async def test_runs_that_fail_in_a_row_are_found_with_their_thread(tmp_path: Path) -> None:
    with ScriptedModel(says("Fine."), *[_FILTERED] * 3, says("Fine.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            for number in range(4):
                await agent.ask(f"{number}")
                assert bool(await failing_threads(agent.app.state.database, 0)) == (number == 3)
            (found,) = await failing_threads(agent.app.state.database, 0)
            assert (found.agent, found.thread_id) == ("helper", (await agent.main()).id)
            assert "content policy" in found.error
            assert await agent.ask("hello?") == "answered"
            assert await failing_threads(agent.app.state.database, 0) == []
