"""However a turn ends, each of its calls has an output, and that says what is known about the call."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runtime.agents.loop.transcript import calls_without_output
from runtime.api.admin.user_removal import erase
from runtime.clock import milliseconds
from runtime.database.schema import OWNER, approvals, inputs, thread_turns
from runtime.errors import Conflict, NotFound
from runtime.identity import users
from runtime.identity.caller import OWNER_CALLER
from runtime.threads.approvals.approval import digest_of
from runtime.threads.approvals.store import Approvals
from runtime.tools.model.agent_toolset import AgentIdentity, AgentTools
from runtime.tools.toolset import ALL_TOOLS
from runtime.webhooks.deliveries.redelivery import redeliver
from runtime.webhooks.deliveries.retention import prune
from tests.runtime.agents.approvals.waiting import CONFIRM, approve, asking, note, parked, pass_deadlines
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.loop.test_tools import Nothing, doing
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import write_program
from tests.runtime.webhooks.candidates import rows

INSERT = {"content": "It began."}
THREE = json.dumps(
    {
        "messages": [],
        "tool_calls": [
            {"name": "archival_insert", "args": INSERT},
            {"name": "memory_append", "args": note("Tea.")},
            {"name": "archival_insert", "args": {"content": "It went on."}},
        ],
    }
)

DELIVERIES = f"{CONFIRM} block human {{ deliveries true }}"


async def states(agent: Acting) -> list[str]:
    return [row.state for row in await rows(agent.app.state.database, approvals)]


async def stored(agent: Acting) -> list[str]:
    """Return the texts in the memory of the agent."""
    context = agent.app.contexts.tool(OWNER_CALLER)
    found = (await ALL_TOOLS.call("memory_list", context, {"agent": "helper"})).model_dump()
    return [each["text"] for each in found["items"] if each["memory_type"] == "semantic"]


async def test_a_run_that_is_cancelled_while_it_waits_leaves_no_open_call(tmp_path: Path) -> None:
    with ScriptedModel(THREE, says("Hello.")) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            assert await agent.dispatcher.cancel(run_id, OWNER) == "cancelled"
            assert await states(agent) == ["cancelled"]
            outputs = await agent.outputs()
            with pytest.raises(Conflict, match="the run of this call ended"):
                await approve(agent, waits)
            assert await agent.ask("Hello?") == "answered"
            assert await agent.events() == ["run_cancelled"]
            assert await agent.block() == ""
    assert [(name, status) for name, status, _ in outputs] == [
        ("archival_insert", "ok"),
        ("memory_append", "error"),
        ("archival_insert", "error"),
    ]
    assert "the turn ended before a person had decided" in outputs[1][2]
    assert "was not run, because the turn ended" in outputs[2][2]
    assert "waits for approval" not in model.texts(1)


async def test_a_run_that_is_cancelled_during_an_approved_call_says_that_it_may_have_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def hang() -> Nothing:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    doing(monkeypatch, "webhook_create", hang)
    create = {"title": "A", "agent": None}
    more = "tools [webhook_create] confirm [webhook_create]"
    with ScriptedModel(says(webhook_create=create), says("Hello.")) as model:
        async with asking(tmp_path, model, more) as agent:
            run_id = await agent.send("Make one.")
            await approve(agent, *await parked(agent, run_id))
            await begun.wait()
            await agent.dispatcher.cancel(run_id, OWNER)
            assert await agent.end(run_id) == "cancelled"
            [(_, status, text)] = await agent.outputs()
            assert await states(agent) == ["approved"]
    assert status == "unknown"
    assert "not known whether it happened" in text


async def test_nobody_is_asked_about_a_call_that_may_have_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def hang() -> Nothing:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    doing(monkeypatch, "webhook_create", hang)
    create = says(webhook_create={"title": "A", "agent": None})
    more = "tools [webhook_create] confirm [webhook_create]"
    with ScriptedModel(create, says("I am not sure.")) as model:
        async with asking(tmp_path, model, more) as agent:
            database = agent.app.state.database
            standing = Approvals(database, agent.app.state.clock).standing
            tool = AgentTools().of(["webhook_create"], OWNER_CALLER, AgentIdentity("helper"))["webhook_create"]
            allow = partial(standing.add, definition=digest_of(tool.name, {}, tool.definition), by=OWNER, via="cli")
            await database.transact(lambda connection: allow(connection, OWNER, "helper", "webhook_create"))
            run_id = await agent.send("Make one.")
            await begun.wait()
            await agent.kill()
            [kept] = await standing.of_user(OWNER)
            await standing.revoke(kept.id, OWNER)
            assert await agent.end(run_id) == "answered"
            assert await states(agent) == []
            [(_, status, _)] = await agent.outputs()
    assert status == "unknown"


async def test_a_call_that_a_dead_letter_left_is_not_run_when_it_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel(THREE, says("Well.")) as model:
        async with asking(tmp_path, model) as agent:
            delivery_id = await agent.deliver({"a": 1})
            run = await agent.until(delivery_id, lambda row: row.state == "awaiting")
            await agent.dispatcher.cancel(run.id, OWNER)
            await redeliver(agent.app.state.database, agent.app.state.clock, delivery_id)
            agent.dispatcher.wake()
            again = await agent.until(delivery_id, lambda row: row.ended == "answered")
            assert again.id == run.id
            outputs = [(name, status) for name, status, _ in await agent.outputs()]
            assert await agent.block() == ""
            assert await stored(agent) == ["It began."]
    assert outputs == [("archival_insert", "ok"), ("memory_append", "error"), ("archival_insert", "error")]
    assert "the turn ended before a person had decided" in model.texts(1)


async def test_a_run_whose_agent_is_gone_leaves_no_open_call(tmp_path: Path) -> None:
    with ScriptedModel(THREE) as model:
        async with acting(tmp_path, program(model, CONFIRM)) as agent:
            run_id = await agent.send("Note it.")
            await parked(agent, run_id)
            write_program(tmp_path, program(model, "enabled false"))
            assert await agent.app.reload()
            await pass_deadlines(agent)
            async with asyncio.timeout(60):
                while [row.state for row in await rows(agent.app.state.database, inputs)] != ["agent_gone"]:
                    await asyncio.sleep(0.02)
            assert len(await agent.outputs()) == 3
            assert await states(agent) == ["cancelled"]


async def test_a_run_that_goes_on_without_a_tool_leaves_no_question_about_it(tmp_path: Path) -> None:
    more = "confirm [memory_append archival_insert]"
    with ScriptedModel(THREE, says("Well.")) as model:
        async with acting(tmp_path, program(model, more)) as agent:
            run_id = await agent.send("Note it.")
            [first, *_] = await parked(agent, run_id)
            await agent.reload(program(model, "tools [archival_search]"))
            await approve(agent, first)
            assert await agent.end(run_id) == "answered"
            assert await states(agent) == ["approved", "cancelled", "cancelled"]
            assert await agent.services.approvals.newest(OWNER, waiting=True) == []


async def test_a_run_whose_steps_are_fewer_after_a_reload_leaves_no_open_call(tmp_path: Path) -> None:
    with ScriptedModel(says(archival_search={"query": "tea"}), THREE, says("Well.")) as model:
        async with acting(tmp_path, program(model, CONFIRM)) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            await agent.reload(program(model, f"max_steps 1 {CONFIRM}"))
            await approve(agent, waits)
            assert await agent.end(run_id) == "max_steps"
            assert calls_without_output(await agent.messages()) == {}
            assert await agent.block() == ""


async def test_a_run_that_asked_goes_on_in_its_thread_when_its_agent_has_others_now(tmp_path: Path) -> None:
    with ScriptedModel(THREE, says("Well.")) as model:
        async with acting(tmp_path, program(model, DELIVERIES)) as agent:
            delivery_id = await agent.deliver({"a": 1})
            run = await agent.until(delivery_id, lambda row: row.state == "awaiting")
            [waits] = await agent.services.approvals.of_run(run.id, OWNER)
            await agent.reload(program(model, f"thread delivery {DELIVERIES}"))
            await approve(agent, waits)
            assert await agent.end(delivery_id) == "answered"
            assert calls_without_output(await agent.messages()) == {}
            assert [status for _, status, _ in await agent.outputs()] == ["ok", "ok", "ok"]


async def test_a_thread_with_a_call_that_waits_is_deleted_by_force_alone(tmp_path: Path) -> None:
    with ScriptedModel(THREE) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            thread = await agent.main()
            with pytest.raises(Conflict, match="at work"):
                await agent.services.threads.delete(thread)
            await agent.services.threads.delete(thread, force=True)
            assert await states(agent) == []
            with pytest.raises(NotFound):
                await approve(agent, waits)
            assert await rows(agent.app.state.database, thread_turns) == []


async def test_a_delivery_whose_thread_is_deleted_asks_again_in_another(tmp_path: Path) -> None:
    with ScriptedModel(says(memory_append=note("Tea.")), says("Well.")) as model:
        async with asking(tmp_path, model, DELIVERIES) as agent:
            delivery_id = await agent.deliver({"a": 1})
            run = await agent.until(delivery_id, lambda row: row.state == "awaiting")
            [before] = await agent.services.approvals.of_run(run.id, OWNER)
            await agent.services.threads.delete(await agent.main(), force=True)
            agent.dispatcher.wake()
            await agent.until(delivery_id, lambda row: row.attempt == 2 and row.state == "awaiting")
            [after] = await agent.services.approvals.of_run(run.id, OWNER)
            assert (after.id == before.id, after.thread_id) == (False, (await agent.main()).id)
            await approve(agent, after)
            assert await agent.end(delivery_id) == "answered"
            assert await agent.block() == "Tea. [from a delivery of pushes]"


async def test_what_a_removed_user_was_asked_is_deleted(tmp_path: Path) -> None:
    with ScriptedModel(THREE) as model:
        async with asking(tmp_path, model) as agent:
            database = agent.app.state.database
            ada = await users.add(database, "ada", 1)
            run_id = await agent.send("Note it.", user_id=ada)
            await agent.until(run_id, lambda row: row.state == "awaiting")
            await database.transact(
                lambda connection: users.remove(connection, ada, milliseconds(agent.app.state.clock))
            )
            async with agent.app.open_context(OWNER_CALLER) as context:
                done = await erase(context, ada)
            assert (done.problems, done.running) == ([], False)
            assert await states(agent) == []


async def test_decided_approvals_are_deleted_with_their_runs(tmp_path: Path) -> None:
    with ScriptedModel(THREE, says("Well.")) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note it.")
            await approve(agent, *await parked(agent, run_id))
            assert await agent.end(run_id) == "answered"
            await prune(agent.app.state.database, agent.app.state.clock, keep_seconds=3600)
            assert await states(agent) == ["approved"]
            await prune(agent.app.state.database, agent.app.state.clock, keep_seconds=-1)
            assert await states(agent) == []


async def test_a_summary_absorbs_no_call_that_waits(tmp_path: Path) -> None:
    long = "It rains in the garden. " * 120
    said: list[Any] = [says(f"{long} {number}") for number in range(4)]
    more = f"context {{ max_tokens 6000 reply_tokens 300 }} {CONFIRM}"
    with ScriptedModel(says(memory_append=note("Tea.")), *said, says("Noted."), says("All.")) as model:
        async with asking(tmp_path, model, more) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            for number in range(4):
                assert await agent.ask(f"{number} {long}") == "answered"
            thread = await agent.main()
            assert await agent.services.summaries.latest(thread) is None
            assert "Calls of earlier turns that wait for approval by a person: memory_append" in model.texts(4)
            await approve(agent, waits)
            assert await agent.end(run_id) == "answered"
            assert '"version":2' in model.texts(-1)
            assert await agent.services.summaries.latest(thread) is not None
