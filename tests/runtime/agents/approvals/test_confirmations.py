"""A call that a person has to confirm waits, others go on meanwhile, and what is approved is exactly what runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import text

from runtime.agents.loop.loop import Loop
from runtime.agents.reply.agent_reply import AgentReply
from runtime.database.schema import OWNER, approvals
from runtime.errors import Conflict, NotFound, UsageError
from runtime.identity.caller import Caller, Forbidden, Surface
from runtime.threads.approvals.approval import digest_of
from runtime.threads.approvals.store import Approvals
from runtime.threads.events.log import EventLog
from runtime.tools.context import ActingAgent
from runtime.tools.model.agent_toolset import AgentIdentity, AgentTools
from runtime.tools.toolset import ALL_TOOLS
from tests.runtime.agents.approvals.waiting import (
    CONFIRM,
    approve,
    asking,
    decide,
    deny,
    note,
    parked,
    pass_deadlines,
)
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.scripted import ScriptedModel, calling, says
from tests.runtime.daemon.running import write_program
from tests.runtime.webhooks.candidates import rows

_BREAK = "UPDATE approvals SET content = 'broken'"
_READ = Loop._step_reading
NATIVE = f"tool_calling native {CONFIRM}"


def roles(body: Mapping[str, Any]) -> list[str]:
    return [message["role"] for message in body["messages"]]


def every_call_has_its_output(body: Mapping[str, Any]) -> bool:
    """Return True if each call of a request is followed by its output, as services demand, and each output by none
    without its call."""
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return False
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    return not waiting


@pytest.mark.parametrize("native", [False, True])
async def test_a_call_waits_and_a_later_message_is_answered_meanwhile(tmp_path: Path, native: bool) -> None:
    called: Any = calling(("memory_append", note("Tea."))) if native else says(memory_append=note("Tea."))
    said: list[Any] = [calling(text="Sunny."), calling(text="Noted.")] if native else [says("Sunny."), says("Noted.")]
    with ScriptedModel(called, *said) as model:
        async with asking(tmp_path, model, NATIVE if native else CONFIRM) as agent:
            first = await agent.send("Note that I like tea.")
            [waits] = await parked(agent, first)
            assert (waits.tool, json.loads(waits.arguments)) == ("memory_append", note("Tea."))
            assert await agent.ask("How is the weather?") == "answered"
            assert await agent.block() == ""
            done = await approve(agent, waits)
            assert (done.state, done.decided_by) == ("approved", OWNER)
            assert await agent.end(first) == "answered"
            assert await agent.block() == "Tea."
            kinds = [(each.kind, each.key) for each in await agent.messages()]
    during, after = model.texts(1), model.texts(2)
    assert "waits for approval" in during
    assert "Calls of earlier turns that wait for approval by a person: memory_append" in during
    assert '"version":2' not in during
    # What was read before stays as it was, and the output comes last.
    before = during[during.index("Note that I like tea.") : during.index("How is the weather?")]
    assert "waits for approval" in before
    assert before in after
    assert after.index("Sunny.") < after.index('"version":2') < after.index("<state>")
    assert "Calls of earlier turns" not in after
    assert all(map(every_call_has_its_output, model.bodies))
    assert kinds == [
        ("message", "input"),
        ("tool_call", "1/calls"),
        ("message", "input"),
        ("message", "1/message"),
        ("tool_output", "1/output/0"),
        ("message", "2/message"),
    ]


async def test_an_output_without_other_turns_in_between_stands_beside_its_call(tmp_path: Path) -> None:
    with ScriptedModel(calling(("memory_append", note("Tea."))), calling(text="Noted.")) as model:
        async with asking(tmp_path, model, NATIVE) as agent:
            run_id = await agent.send("Note it.")
            await approve(agent, *await parked(agent, run_id))
            assert await agent.end(run_id) == "answered"
    assert roles(model.bodies[1])[-3:-1] == ["assistant", "tool"]
    assert "waits for approval" not in model.texts(1)


async def test_calls_of_one_reply_are_asked_about_at_once_and_run_in_their_order(tmp_path: Path) -> None:
    made = [note("1"), note("2"), note("3")]
    replies = {"messages": [], "tool_calls": [{"name": "memory_append", "args": each} for each in made]}
    replies["tool_calls"].insert(0, {"name": "archival_insert", "args": {"content": "It began."}})
    replies["tool_calls"].insert(3, {"name": "archival_insert", "args": {"content": "Between."}})
    with ScriptedModel(json.dumps(replies), says("Done.")) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note it.")
            one, two, three = await parked(agent, run_id)
            assert [name for name, *_ in await agent.outputs()] == ["archival_insert"]
            await approve(agent, two)
            await agent.until(run_id, lambda row: row.attempt == 2 and row.state == "awaiting")
            assert await agent.block() == ""
            await approve(agent, one)
            await agent.until(run_id, lambda row: row.attempt == 3 and row.state == "awaiting")
            assert await agent.block() == "1\n2"
            await deny(agent, three)
            assert await agent.end(run_id) == "answered"
            assert await agent.block() == "1\n2"
            outputs = await agent.outputs()
    order = ["archival_insert", "memory_append", "memory_append", "archival_insert", "memory_append"]
    assert [name for name, *_ in outputs] == order
    assert [status for _, status, _ in outputs] == ["ok", "ok", "ok", "ok", "error"]


async def test_a_denial_and_its_reason_go_to_the_model(tmp_path: Path) -> None:
    with ScriptedModel(says(memory_append=note("Tea.")), says("I leave it.")) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            done = await deny(agent, waits, "Ask Ada first.")
            assert (done.state, done.reason) == ("denied", "Ask Ada first.")
            assert await agent.end(run_id) == "answered"
            assert await agent.block() == ""
    assert "A person denied this call: Ask Ada first." in model.texts(1)


async def test_nobody_answered_until_the_deadline(tmp_path: Path) -> None:
    with ScriptedModel(says(memory_append=note("Tea.")), says("I leave it.")) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            assert waits.deadline - waits.created_at == 86_400_000
            await pass_deadlines(agent)
            with pytest.raises(Conflict, match="nobody decided"):
                await approve(agent, waits)
            assert await agent.end(run_id) == "answered"
            assert await agent.block() == ""
            assert [row.state for row in await rows(agent.app.state.database, approvals)] == ["expired"]
            with pytest.raises(Conflict, match="nobody decided"):
                await deny(agent, waits)
    assert "denied, because nobody answered" in model.texts(1)


async def test_of_two_decisions_one_counts(tmp_path: Path) -> None:
    with ScriptedModel(says(memory_append=note("Tea.")), says("Well.")) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            await deny(agent, waits)
            with pytest.raises(Conflict, match="this call was denied already"):
                await approve(agent, waits)
            assert await agent.end(run_id) == "answered"
            assert await agent.block() == ""


async def test_a_tool_that_is_approved_for_good_is_not_asked_about_until_that_is_revoked(tmp_path: Path) -> None:
    replies = [each for text in "123" for each in (says(memory_append=note(text)), says("Noted."))]
    with ScriptedModel(*replies) as model:
        async with asking(tmp_path, model, "confirm [memory_append memory_insert]") as agent:
            first = await agent.send("Note it.")
            await approve(agent, *await parked(agent, first), always=True)
            assert await agent.end(first) == "answered"
            assert await agent.ask("Again.") == "answered"
            assert await agent.block() == "1\n2"
            standing = Approvals(agent.app.state.database, agent.app.state.clock).standing
            [kept] = await standing.of_user(OWNER)
            assert (kept.agent, kept.tool) == ("helper", "memory_append")
            assert await standing.of_user("another") == []
            with pytest.raises(NotFound):
                await standing.revoke(kept.id, "another")
            await standing.revoke(kept.id[:-3], OWNER)
            assert len(await parked(agent, await agent.send("Once more."))) == 1


async def test_a_pattern_asks_about_destructive_tools_too(tmp_path: Path) -> None:
    forget = {"memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"}
    with ScriptedModel(says(memory_forget=forget), says("Well.")) as model:
        async with asking(tmp_path, model, 'tools [memory_forget] confirm ["memory_f*"]') as agent:
            [waits] = await parked(agent, await agent.send("Forget it."))
            assert waits.tool == "memory_forget"


async def test_nobody_is_asked_about_a_call_that_cannot_run(tmp_path: Path) -> None:
    with ScriptedModel(says(memory_append={"label": "human"}), says("Well.")) as model:
        async with asking(tmp_path, model) as agent:
            assert await agent.ask("Note it.") == "answered"
            assert await rows(agent.app.state.database, approvals) == []
            [(_, status, said)] = await agent.outputs()
    assert status == "error"
    assert "content" in said


@pytest.mark.parametrize(
    ("later", "says_"),
    [('tools ["archival_*"] confirm [archival_insert]', "no tool is called memory_append"), ("", '"version":2')],
)
async def test_what_was_approved_runs_or_nothing_does_when_the_program_has_changed(
    tmp_path: Path, later: str, says_: str
) -> None:
    with ScriptedModel(says(memory_append=note("Tea.")), says("Well.")) as model:
        async with acting(tmp_path, program(model, CONFIRM)) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            write_program(tmp_path, program(model, later))
            assert await agent.app.reload()
            await approve(agent, waits)
            assert await agent.end(run_id) == "answered"
            [(name, _, said)] = await agent.outputs()
            assert (await agent.block() != "") == (later == "")
    assert name == "memory_append"
    assert says_ in said.replace("'", "").replace("`", "")


async def test_a_decision_holds_when_the_program_wants_no_confirmation_any_more(tmp_path: Path) -> None:
    with ScriptedModel(says(memory_append=note("Tea.")), says("Well.")) as model:
        async with acting(tmp_path, program(model, CONFIRM)) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            write_program(tmp_path, program(model))
            assert await agent.app.reload()
            await deny(agent, waits)
            assert await agent.end(run_id) == "answered"
            assert await agent.block() == ""


@pytest.mark.parametrize("what", ["schema", "row", "arguments"])
async def test_nothing_else_runs_than_what_was_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with ScriptedModel(says(memory_append=note("Tea.")), says("Well.")) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            if what == "schema":
                monkeypatch.setattr("runtime.agents.loop.confirmations.digest_of", lambda *_: "of another schema")
            elif what == "row":
                await agent.app.state.database.transact(lambda connection: connection.execute(text(_BREAK)))
            else:
                monkeypatch.setattr(Loop, "_step_reading", _with_other_arguments)
            shown = await approve(agent, waits)
            assert (shown.arguments is None) == (what == "row")
            assert await agent.end(run_id) == "answered"
            assert await agent.block() == ""
            [(_, status, said)] = await agent.outputs()
    assert status == "error"
    assert "has changed" in said


async def test_only_persons_decide_and_only_about_their_own_calls(tmp_path: Path) -> None:
    with ScriptedModel(says(memory_append=note("Tea.")), says("Well.")) as model:
        async with asking(tmp_path, model) as agent:
            [waits] = await parked(agent, await agent.send("Note it."))
            given = {"approval_id": waits.id}
            with pytest.raises(Forbidden):
                await decide(agent, "approval_approve", given, scope="read")
            for name in ("approval_approve", "approval_deny", "approval_show"):
                with pytest.raises(NotFound):
                    await decide(agent, name, given, user_id="another")
            admin = Caller(OWNER, frozenset({"admin"}))
            tools = AgentTools().of(["*", "approval_approve"], admin, AgentIdentity("helper"))
            assert [name for name in tools if "approval" in name] == []
            context = agent.app.contexts.tool(admin, acting=ActingAgent("helper", "run", None))
            with pytest.raises(UsageError, match="is for people"):
                await ALL_TOOLS.call("approval_approve", context, given)
            assert (await decide(agent, "approval_show", given, scope="read")).state == "awaiting"
            done = await decide(agent, "approval_deny", given, user_id="boss", scope="admin")
            assert (done.state, done.decided_by) == ("denied", "id:boss")


@pytest.mark.parametrize(("surface", "via"), [("user", "cli"), ("api", "http"), ("agent", "mcp")])
async def test_how_a_call_was_decided_and_where_it_came_from_is_kept(
    tmp_path: Path, surface: Surface, via: str
) -> None:
    with ScriptedModel(says(memory_append=note("Tea.")), says("Well.")) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note\x1b it. " + "x" * 1000)
            [waits] = await parked(agent, run_id)
            done = await decide(agent, "approval_approve", {"approval_id": waits.id, "always": True}, via=surface)
            assert done.decided_via == via
            assert (done.kind, done.subject, done.webhook, done.delivery_id, done.server) == ("main", *[None] * 4)
            assert done.message.startswith("Note")
            assert len(done.message) == 500
            assert await agent.end(run_id) == "answered"
            events = (await EventLog(agent.app.state.database, agent.app.state.clock).page(OWNER, 0)).events
            [asked, decided] = [each.data for each in events if each.name == "agent.confirm"]
            assert (asked["kind"], asked["message"], decided["via"]) == ("main", done.message, via)
            [kept] = await Approvals(agent.app.state.database, agent.app.state.clock).standing.of_user(OWNER)
            assert kept.via == via


async def _with_other_arguments(loop: Loop, number: int) -> AgentReply:
    """Return the reading of a step whose calls have other arguments than before."""
    reading = await _READ(loop, number)
    calls = (msgspec.structs.replace(each, arguments=note("Coffee.")) for each in reading.calls)
    return msgspec.structs.replace(reading, calls=tuple(calls))


def test_the_hash_of_an_approval_is_of_all_that_runs() -> None:
    exact = digest_of("merge", {"a": 1, "b": [True]}, {"type": "object"})
    assert exact == digest_of("merge", {"b": [True], "a": 1}, {"type": "object"})
    others = [
        digest_of("merge_all", {"a": 1, "b": [True]}, {"type": "object"}),
        digest_of("merge", {"a": 2, "b": [True]}, {"type": "object"}),
        digest_of("merge", {"a": 1, "b": [True]}, {"type": "object", "title": "Merge"}),
    ]
    assert exact not in others


def test_the_hash_of_an_approval_is_of_the_memory_of_one_subject_and_agent() -> None:
    admin = Caller(OWNER, frozenset({"admin"}))
    identities = [AgentIdentity("helper"), AgentIdentity("helper", "ann"), AgentIdentity("other")]
    exact = [AgentTools().of(None, admin, each)["memory_append"].exact for each in identities]
    assert len({digest_of("memory_append", {}, each) for each in exact}) == len(identities)
