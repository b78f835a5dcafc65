"""A run that is interrupted between any two commits goes on where it stopped, and ends as one that was not."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import first_of
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.outages import fail_at, unconfirmed
from tests.runtime.agents.scripted import ScriptedModel, says


def answer(body: Mapping[str, Any]) -> str:
    """Note two facts one after the other, then say something."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    done = text.count("<tool_output")
    if done < 2:
        return says(memory_append={"label": "human", "content": f"Fact {done}."})
    return says("Noted both.")


@pytest.mark.parametrize("stored", [False, True])
@first_of("broken", range(1, 22), 2, every=4)
async def test_an_outage_at_any_commit_of_a_run_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, broken: int, stored: bool
) -> None:
    with ScriptedModel(answer) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert agent.app.state.database.kind == kind
            written = fail_at(monkeypatch, agent.app.state.database.commits, broken, stored=stored)
            assert await agent.ask("Note it.") == "answered"
            assert (await agent.block()).split("\n") == ["Fact 0.", "Fact 1."]
            assert written() > broken
            found = await agent.messages()
    assert [each.position for each in found] == list(range(6))
    assert [each.kind for each in found] == ["message", *["tool_call", "tool_output"] * 2, "message"]


async def test_no_error_is_lost_when_an_outage_begins_with_the_calls_of_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    with ScriptedModel(answer) as model:
        async with acting(tmp_path, program(model)) as agent:
            commits = agent.app.state.database.commits
            put, failed = commits.put, set()

            def failing(stage: Any, item: Any) -> Any:
                keys = {str(getattr(each, "key", None)) for each in (item, *getattr(item, "messages", ()))}
                for began in ("1/calls", "call/"):
                    if began not in failed and any(key.startswith(began) for key in keys):
                        failed.add(began)
                        return asyncio.ensure_future(unconfirmed(put(stage, item)))
                return put(stage, item)

            monkeypatch.setattr(commits, "put", failing)
            assert await agent.ask("Note it.") == "answered"
            assert (await agent.block()).split("\n") == ["Fact 0.", "Fact 1."]
            assert failed == {"1/calls", "call/"}
    gc.collect()
    assert lost == []
