"""What a restart changes about a run and about later ones: nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.agents.context.build import build_measured
from tests.lanes import first_of
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.scripted import ScriptedModel, says

STEPS = 4


def answer(body: Mapping[str, Any]) -> str:
    """Note facts one after the other, then say something."""
    done = "\n".join(str(message["content"]) for message in body["messages"]).count("<tool_output")
    if done < STEPS:
        return says(memory_append={"label": "human", "content": f"Fact {done}."})
    return says("Noted all.")


@first_of("killed", range(1, STEPS + 2), 2)
async def test_a_run_that_is_killed_while_its_model_answers_asks_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: int
) -> None:
    asked, built = list[list[Any]](), list[int]()

    async def counted(*given: Any) -> Any:
        built.append(len(asked))
        return await build_measured(*given)

    monkeypatch.setattr("runtime.agents.loop.loop.build_measured", counted)
    with ScriptedModel(answer) as model:
        model.tells = False
        async with acting(tmp_path, program(model)) as agent:

            def interrupting(body: Mapping[str, Any]) -> str:
                asked.append([message["content"] for message in body["messages"]])
                return answer(body)

            model.replies = [interrupting]
            run_id = await agent.send("Note all facts.")
            while len(asked) < killed:
                await agent.until(run_id, lambda row: row is not None)
            await agent.kill()
            stored = len(built)
            assert await agent.end(run_id) == "answered"
            facts = (await agent.block()).split("\n")
            thread = await agent.main()
    assert facts == [f"Fact {number}." for number in range(STEPS)]
    assert thread.summary_count == 0
    # A context is built for each question after the kill, and for no reply that was recorded.
    assert len(built) - stored <= len(asked) - killed + 1
    outputs = [sum(str(text).count("<tool_output") for text in texts) for texts in asked]
    # Whatever step was asked again, the question had all that was done before it.
    assert outputs == sorted(outputs)
    assert outputs[-1] == STEPS


async def test_what_was_learnt_of_a_models_tokens_survives_a_restart(tmp_path: Path) -> None:
    with ScriptedModel(says("I see. " + "word " * 50)) as model:
        model.letters = 12
        text = program(model, "context { max_tokens 6000 reply_tokens 400 }")
        async with acting(tmp_path, text) as agent:
            for number in range(10):
                assert await agent.ask(f"Question {number}. " + "word " * 50) == "answered"
            [before] = [each.ratio for each in agent.services.counters._counters.values()]
        assert before < 0.9
        async with acting(tmp_path, text) as agent:
            assert await agent.ask("And now?") == "answered"
            [after] = [each.first_ratio for each in agent.services.counters._counters.values()]
            assert (await agent.main()).summary_count == 0
    assert after == pytest.approx(before, rel=0.05)


async def test_a_thread_that_fits_is_not_summarized_because_the_daemon_has_restarted(tmp_path: Path) -> None:
    # About 4,400 tokens of prose, as a service counts them, in a window of 16,000.
    said = "The harbour office opens at seven, and the captains wait outside the breakwater until then. " * 28
    with ScriptedModel(says("I see.")) as model:
        model.letters = 5
        text = program(model, "context { max_tokens 16000 }")
        for number in range(10):
            async with acting(tmp_path, text) as agent:
                assert await agent.ask(f"{number}. {said}") == "answered"
                thread = await agent.main()
    assert thread.summary_count == 0
    assert len(model.bodies) == 10
