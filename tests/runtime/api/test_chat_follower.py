"""What a chat is told of the run that answers it, and when it does not follow the run any longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.api.admin.agents import chat
from runtime.tools.agent import follower
from tests.runtime.agents.approvals.waiting import approve, asking, note
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import ScriptedModel, says


async def send(agent: Acting, tell: Callable[[Any], None], **given: Any) -> dict[str, Any]:
    """Send a message as `symbi chat` does, and return its answer."""
    agent.app.daemon.cancel_run = agent.dispatcher.cancel
    context = replace(agent.app.admin_context(), tell=tell)
    async with asyncio.timeout(60):
        return await chat.chat_send(context, {"agent": "helper", "message": "Hello", **given})


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
            assert [each["event"] for each in told] == ["sent", "agent.note"]
            assert told[-1]["detail"] == answer["error"]


async def test_a_chat_is_told_the_public_events_once_and_in_order(tmp_path: Path) -> None:
    told, parts = list[Any](), list[Any]()

    def tell(event: Any) -> None:
        (parts if event["event"] == "agent.delta" else told).append(event)

    with ScriptedModel(says("One.", memory_append=note("Ada")), says("Two.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            answer = await send(agent, tell)
            assert answer["messages"] == ["One.", "Two."]
            names = [(each["event"], each.get("state")) for each in told]
            assert names == [
                ("sent", None),
                *((f"agent.{name}", None) for name in ("typing", "message")),
                *(("agent.tool", state) for state in ("started", "ok")),
                *((f"agent.{name}", None) for name in ("typing", "message", "done")),
            ]
            assert told[3]["arguments"] == note("Ada")
            assert [each["text"] for each in parts if each["text"]]
            # A chat that begins after an event gets the others.
            context = replace(agent.app.admin_context(), tell=(rest := list[Any]()).append)
            given = {"run": answer["run"], "thread": answer["thread"], "after": told[2]["id"]}
            assert await chat.chat_follow(context, given) == answer
            assert rest == told[3:]


async def test_a_call_that_waits_for_approval_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "LOOK_SECONDS", 60)
    with ScriptedModel(says(memory_append=note("Ada")), says("Done.")) as model:
        async with asking(tmp_path, model) as agent:
            asked = asyncio.Queue[Any]()
            sent = asyncio.create_task(send(agent, asked.put_nowait, decides=True))
            async with asyncio.timeout(60):
                while (event := await asked.get())["event"] != "agent.confirm":
                    pass
            [approval] = await agent.services.approvals.of_run(event["run"], "owner")
            await approve(agent, approval)
            assert (await sent)["messages"] == ["Done."]
