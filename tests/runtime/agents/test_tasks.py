"""An agent works on the tasks of its user, in its name, and a killed call happens once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.threads.run_log import RunLog
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.scripted import ScriptedModel, says


def creating(**given: str) -> Callable[[Mapping[str, Any]], str]:
    """Create a task, then say something."""

    def answer(body: Mapping[str, Any]) -> str:
        text = "\n".join(str(message["content"]) for message in body["messages"])
        return says("I will.") if "<tool_output" in text else says(task_create={"title": "Call Ada", **given})

    return answer


def hanging_after_the_first_tool(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let the first call of a tool happen, and hang before its output is stored; return what is set then."""
    done, step = asyncio.Event(), RunLog.step

    async def hanging(log: RunLog, kind: str, intent: object, act: Any, **given: Any) -> Any:
        async def happen() -> Any:
            output = await act()
            if kind == "tool" and not done.is_set():
                done.set()
                await asyncio.Event().wait()
            return output

        return await step(log, kind, intent, happen, **given)

    monkeypatch.setattr(RunLog, "step", hanging)
    return done


async def test_a_call_whose_output_was_not_stored_creates_one_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with ScriptedModel(creating()) as model:
        async with acting(tmp_path, program(model, "tools [task_create]")) as agent:
            assert agent.app.state.database.kind == kind
            done = hanging_after_the_first_tool(monkeypatch)
            run_id = await agent.send("Remind me.")
            await done.wait()
            await agent.kill()
            assert await agent.end(run_id) == "answered"
            [(_, status, text)] = await agent.outputs()
            page = await agent.app.state.tasks.page("owner", limit=10)
    [task] = page.tasks
    assert (status, task.id in text) == ("ok", True)
    assert (task.source, task.created_by_agent, task.origin_run_id) == ("agent", "helper", run_id)


async def test_a_model_cannot_say_who_it_is(tmp_path: Path) -> None:
    with ScriptedModel(creating(source="user")) as model:
        async with acting(tmp_path, program(model, "tools [task_create]")) as agent:
            assert await agent.ask("Remind me.") == "answered"
            [(_, status, _)] = await agent.outputs()
            assert status == "error"
            assert (await agent.app.state.tasks.page("owner", limit=10)).total == 0
