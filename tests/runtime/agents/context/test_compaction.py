"""A summary is written once, and never taken for that of other messages, when its run is interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.database.errors import Unavailable
from runtime.threads.summaries import Summary
from runtime.threads.thread_write import ThreadWrite
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.outages import unconfirmed
from tests.runtime.agents.scripted import ScriptedModel, says

MORE = f"""
    context {{ max_tokens 2925 reply_tokens 400 }}
    tools ["agent_block_history"]
    block notes {{ value "{"word " * 300}" }}
"""


class Scribe:
    """A model that numbers its summaries, and reads a long block in the first `steps` steps of a run."""

    def __init__(self) -> None:
        self.summaries = 0
        self.steps = 0

    def __call__(self, body: Mapping[str, Any]) -> str:
        if "You keep the summary" in body["messages"][0]["content"]:
            self.summaries += 1
            return f"Summary {self.summaries}."
        if self.steps:
            self.steps -= 1
            return says(agent_block_history={"label": "notes", "limit": self.steps + 1})
        return says("Read.")


async def interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, stored: bool
) -> tuple[int, list[Summary]]:
    """Interrupt a run, whose context is too large at each step, when its summary with this number is stored. Return
    how many summaries were asked for, and those of the thread."""
    scribe = Scribe()
    with ScriptedModel(scribe) as model:
        async with acting(tmp_path, program(model, MORE)) as agent:
            for question in range(4):
                assert await agent.ask(f"Question {question}. " + "word " * 150) == "answered"
            commits, left = agent.app.state.database.commits, [number]
            put = commits.put

            def failing(stage: Any, write: Any) -> Any:
                if isinstance(write, ThreadWrite) and write.summary is not None:
                    left[0] -= 1
                    if left[0] == 0 and stored:
                        return asyncio.ensure_future(unconfirmed(put(stage, write)))
                    if left[0] == 0:
                        raise Unavailable("the disk is full")
                return put(stage, write)

            monkeypatch.setattr(commits, "put", failing)
            scribe.steps = 2
            assert await agent.ask("Read the notes. " + "word " * 600) == "answered"
            assert left[0] < 0
            return scribe.summaries, await agent.services.summaries.chain(await agent.main())


@pytest.mark.parametrize("stored", [False, True])
async def test_a_summary_that_was_recorded_is_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    asked, found = await interrupted(tmp_path, monkeypatch, 1, stored=stored)
    assert [each.text for each in found] == [f"Summary {number}." for number in range(1, asked + 1)]


async def test_a_later_attempt_that_summarizes_more_messages_at_a_step_does_not_take_the_summary_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found = await interrupted(tmp_path, monkeypatch, 2, stored=False)
    assert len({each.text for each in found}) == len(found)
    assert [each.first_position for each in found[1:]] == [each.last_position + 1 for each in found[:-1]]
