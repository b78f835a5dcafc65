"""What an agent sets by version is set once, however its run is interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.database.schema import OWNER, kv_calls, user_storage
from runtime.identity import users
from runtime.tables.kv.store import KvStore
from tests.lanes import first_of
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.outages import fail_at
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.webhooks.candidates import rows


def answer(body: Mapping[str, Any]) -> str:
    """Set an entry that must not exist, then set it by its version, delete another, and say so."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    done = text.count("<tool_output")
    if done == 0:
        return says(agent_memory_set={"key": "n", "value": 0, "if_version": 0, "expires_at": "1h"})
    if done == 1:
        return says(agent_memory_set={"key": "n", "value": 1, "if_version": 2})
    if done == 2:
        return says(agent_memory_delete={"key": "other"})
    return says("Done.")


@pytest.mark.parametrize("stored", [False, True])
@first_of("broken", range(1, 26), 0, every=8)
async def test_an_outage_at_any_commit_of_a_run_reports_no_false_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, broken: int, stored: bool
) -> None:
    with ScriptedModel(answer) as model:
        async with acting(
            tmp_path, program(model, "tools [agent_memory_set agent_memory_get agent_memory_delete]")
        ) as agent:
            app = agent.app
            assert app.state.database.kind == kind
            store = KvStore(app.state.database, app.state.clock, app.state.storage, OWNER)
            await store.set("other", 1)
            written = fail_at(monkeypatch, app.state.database.commits, broken, stored=stored)
            assert await agent.ask("Count.") == "answered"
            outputs = await agent.outputs()
            assert [each[:2] for each in outputs] == [
                *[("agent_memory_set", "ok")] * 2,
                ("agent_memory_delete", "ok"),
            ], outputs
            assert '"deleted":1' in outputs[2][2]
            entry = await store.get("n")
            assert entry is not None
            assert (entry.value, entry.version, entry.expires_at) == (1, 3, None)
            assert written() > min(broken, 5)
            assert [row.kv_version for row in await rows(app.state.database, user_storage)] == [3]
            assert len(await rows(app.state.database, kv_calls)) == 3


async def test_agents_of_a_user_share_the_entries_and_those_of_another_user_do_not(tmp_path: Path) -> None:
    reply = says(agent_memory_get={"key": "n"})
    with ScriptedModel(reply, says("It is 5."), reply, says("There is none.")) as model:
        async with acting(
            tmp_path, program(model, "tools [agent_memory_set agent_memory_get agent_memory_delete]")
        ) as agent:
            app = agent.app
            await KvStore(app.state.database, app.state.clock, app.state.storage, OWNER).set("n", 5)
            assert await agent.ask("What is n?") == "answered"
            ada = await users.add(app.state.database, "ada", 0)
            thread = await agent.main(ada)
            assert await agent.ask("What is n?", thread=thread) == "answered"
            assert '"value":5' in (await agent.outputs())[0][2]
            ((name, status, text),) = await agent.outputs(thread)
            assert (name, status) == ("agent_memory_get", "error")
            assert "there is no entry 'n'" in text
