"""What a chat is told of the run that answers it, and when it does not follow the run any longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.agents.loop.events import RunEvent
from runtime.api.admin.agents import chat
from runtime.api.admin.agents.chat import _Follower
from runtime.tools.agent.turn_answer import AnsweredRun
from tests.clocks import ManualClock
from tests.runtime.agents.approvals.waiting import approve, asking, note
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.api.chat.test_chat import Held

AWAY = AnsweredRun("run", "helper", "queued", "model_unavailable", None, "503")
PATIENCE = 20


@pytest.mark.parametrize(("event", "over"), [("reply", True), ("text", False)])
async def test_only_what_the_model_says_shows_that_it_is_back(event: str, over: bool) -> None:
    clock, told = ManualClock(), list[Any]()
    context = SimpleNamespace(clock=clock, tell=told.append, shown=lambda state, error: (state, error))
    follower = _Follower(cast("Any", context), cast("Any", None), "run", PATIENCE, decides=False)

    async def events() -> AsyncIterator[RunEvent]:
        yield {"event": event, "run_id": "run"}

    assert not follower._is_left(AWAY)
    clock.advance(PATIENCE)
    await follower._pass_on(events())
    assert follower._is_left(AWAY) is over


async def send(agent: Acting, tell: Callable[[Any], None], **given: Any) -> dict[str, Any]:
    """Send a message as `symbi chat` does, and return its answer."""
    context = replace(agent.app.admin_context(), tell=tell, cancel_run=agent.dispatcher.cancel)
    async with asyncio.timeout(60):
        return await chat.send(context, {"agent": "helper", "message": "Hello", **given})


async def test_a_question_behind_one_that_waits_at_a_limit_says_why_and_is_not_followed(tmp_path: Path) -> None:
    with ScriptedModel(says("Hi.")) as model:
        async with acting(tmp_path, program(model, "limits { runs_per_hour 1 at_limit wait }")) as agent:
            assert await agent.ask("One.") == "answered"
            first = await agent.send("Two.")
            await agent.until(first, lambda row: row.state == "budget_exceeded")
            told = list[Any]()
            answer = await send(agent, told.append, patience=60)
            why = "an earlier turn of the thread waits: the limit of the agent helper, 1 run per hour, is used up"
            assert (answer["ended"], answer["state"]) == (None, "waiting")
            assert answer["error"].startswith(why)
            assert [each["event"] for each in told] == ["sent", "parked"]
            assert told[-1]["error"] == answer["error"]


async def test_what_another_daemon_stores_of_a_run_is_told_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "LOOK_SECONDS", 60)
    held, told = Held(says("Two.")), list[Any]()

    def tell(event: Any) -> None:
        told.append(event["event"])
        if event["event"] == "output":
            held.going_on.set()

    with ScriptedModel(says("One.", memory_append=note("Ada")), held) as model:
        async with acting(tmp_path, program(model)) as agent:
            # Its parts are told in its own process alone.
            monkeypatch.setattr(agent.services.events, "publisher", lambda _thread: None)
            answer = await send(agent, tell)
            assert answer["messages"] == ["One.", "Two."]
            assert told[:4] == ["sent", "message", "call", "output"]
            # The last message may be seen with the end of its run, whose answer has it.
            assert told[4:] in ([], ["message"])


async def test_a_call_that_waits_for_approval_is_told_when_its_run_is_parked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "LOOK_SECONDS", 60)
    with ScriptedModel(says(memory_append=note("Ada")), says("Done.")) as model:
        async with asking(tmp_path, model) as agent:
            asked = asyncio.Queue[Any]()
            sent = asyncio.create_task(send(agent, asked.put_nowait, decides=True))
            async with asyncio.timeout(60):
                while (event := await asked.get())["event"] != "confirm":
                    pass
            [approval] = await agent.services.approvals.of_run(event["approvals"][0]["run_id"], "owner")
            await approve(agent, approval)
            assert (await sent)["messages"] == ["Done."]
