"""A run that asks a person and is interrupted between any two commits asks once, and what is approved happens once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.database.schema import approvals
from runtime.threads.run_log import RunLog
from tests.lanes import first_of
from tests.runtime.agents.approvals.waiting import approve, asking, deny, note, parked, pass_deadlines
from tests.runtime.agents.outages import fail_at
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.webhooks.candidates import rows


def answer(body: Mapping[str, Any]) -> str:
    """Note a fact, then say something."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    return says("Noted.") if "<tool_output" in text else says(memory_append=note("Fact."))


@pytest.mark.parametrize("stored", [False, True])
@first_of("broken", range(1, 21), 2, every=4)
async def test_an_outage_at_any_commit_of_a_run_that_asks_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, broken: int, stored: bool
) -> None:
    with ScriptedModel(answer) as model:
        async with asking(tmp_path, model) as agent:
            assert agent.app.state.database.kind == kind
            written = fail_at(monkeypatch, agent.app.state.database.commits, broken, stored=stored)
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            assert len(await rows(agent.app.state.database, approvals)) == 1
            await approve(agent, waits)
            assert await agent.end(run_id) == "answered"
            assert await agent.block() == "Fact."
            assert [row.state for row in await rows(agent.app.state.database, approvals)] == ["approved"]
            assert written() > broken
            found = await agent.messages()
    assert [each.kind for each in found] == ["message", "tool_call", "tool_output", "message"]
    assert found[2].text.startswith('{"label":"human","version":2')


@pytest.mark.parametrize("what", ["denied", "expired", "changed"])
async def test_a_kill_while_a_call_is_answered_does_not_run_what_may_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with ScriptedModel(says(memory_append=note("Tea.")), says("Well.")) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            with monkeypatch.context() as hanging:
                begun = hanging_at_first_tool(hanging)
                match what:
                    case "denied":
                        await deny(agent, waits)
                    case "expired":
                        await pass_deadlines(agent)
                    case "changed":
                        await approve(agent, waits)
                await begun.wait()
                await agent.kill()
            if what == "changed":
                monkeypatch.setattr("runtime.agents.loop.confirmations.digest_of", lambda *_: "of another schema")
            assert await agent.end(run_id) == "answered"
            assert await agent.block() == ""
            [(_, status, _)] = await agent.outputs()
    assert status == ("unknown" if what == "changed" else "error")


def hanging_at_first_tool(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let the next call of a tool hang after its intent was stored; return what is set then."""
    begun, step = asyncio.Event(), RunLog.step

    async def hang() -> Any:
        begun.set()
        await asyncio.Event().wait()

    async def hanging(log: RunLog, kind: str, intent: object, act: Any, **given: Any) -> Any:
        return await step(log, kind, intent, hang if kind == "tool" and not begun.is_set() else act, **given)

    monkeypatch.setattr(RunLog, "step", hanging)
    return begun
