"""A call whose agent the program does not have any more says so, and waits for it until the deadline."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.database.schema import OWNER
from runtime.errors import Conflict
from runtime.identity.caller import Caller
from runtime.tools.approvals.decide import CallApproval, CallApprovals
from runtime.tools.toolset import ALL_TOOLS
from tests.runtime.agents.approvals.waiting import CONFIRM, approve, asking, deny, note, parked
from tests.runtime.agents.loop.acting import Acting, program
from tests.runtime.agents.scripted import ScriptedModel, says

ALONE = 'memory notes { path "notes" embedding hashing }\n'


def without(model: ScriptedModel, how: str) -> str:
    """Return a program in which the agent is away."""
    return {
        "removed": ALONE,
        "a recorder of a webhook": ALONE + 'webhook pushes { path "/w" insecure_allow_unverified true agent helper }\n',
        "disabled": program(model, f"enabled false {CONFIRM}"),
        "no model": program(model, chosen=""),
    }[how]


async def pending(agent: Acting) -> list[CallApproval]:
    context = agent.app.contexts.tool(Caller(OWNER, frozenset({"read"})))
    listed = await ALL_TOOLS.call("approval_list", context, {})
    assert isinstance(listed, CallApprovals)
    return listed.approvals


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("removed", "the agent helper is not in the program"),
        ("a recorder of a webhook", "the agent helper is not in the program"),
        ("disabled", "the agent helper is disabled"),
        ("no model", "the agent helper has no model"),
    ],
)
async def test_a_call_waits_for_its_agent_and_runs_when_it_is_back(tmp_path: Path, how: str, why: str) -> None:
    with ScriptedModel(says(memory_append=note("Tea.")), says("Noted.")) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            assert [each.cannot_run for each in await pending(agent)] == [None]
            await agent.reload(without(model, how))
            assert [(each.state, each.cannot_run) for each in await pending(agent)] == [("awaiting", why)]
            with pytest.raises(Conflict, match=f"^{why}, so this call cannot run$"):
                await approve(agent, waits)
            await agent.reload(program(model, CONFIRM))
            assert [(each.state, each.cannot_run) for each in await pending(agent)] == [("awaiting", None)]
            await approve(agent, waits)
            assert await agent.end(run_id) == "answered"
            assert await agent.block() == "Tea."


async def test_a_call_is_denied_while_its_agent_is_away(tmp_path: Path) -> None:
    with ScriptedModel(says(memory_append=note("Tea."))) as model:
        async with asking(tmp_path, model) as agent:
            run_id = await agent.send("Note it.")
            [waits] = await parked(agent, run_id)
            await agent.reload(ALONE)
            done = await deny(agent, waits, "Not now.")
            assert (done.state, done.cannot_run) == ("denied", None)
            await agent.until(run_id, lambda row: row.state == "agent_gone")
            assert [said for _, _, said in await agent.outputs()] == ["A person denied this call: Not now."]
            assert await pending(agent) == []
