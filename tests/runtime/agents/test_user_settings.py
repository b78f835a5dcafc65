"""Runs with the settings of their users: from the next attempt on, and not at all while the user has them off."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runtime.api.admin.operations import AdminCall
from runtime.api.rest.problem import problem_of
from runtime.crypto import Unsealable
from runtime.database.schema import OWNER, agent_settings, deliveries
from runtime.identity import users
from runtime.identity.caller import OWNER_CALLER, Caller
from runtime.switches import SwitchedOff
from runtime.threads.agent_settings import AgentSettings
from runtime.threads.run import SWITCHED_OFF
from runtime.tools.toolset import ALL_TOOLS
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.webhooks.candidates import rows


async def configure(agent: Acting, user_id: str = OWNER, **settings: Any) -> dict[str, Any]:
    """Replace a user's own settings of the agent, as over HTTP."""
    caller = OWNER_CALLER if user_id == OWNER else Caller(user_id, frozenset({"write"}))
    async with agent.app.open_context(caller) as context:
        done = await ALL_TOOLS.call("agent_config_edit", context, {"agent": "helper", **settings})
    return done.model_dump()


async def test_a_run_has_the_settings_of_its_user(tmp_path: Path) -> None:
    with ScriptedModel(says("From the first.")) as first, ScriptedModel(says("From the second.")) as second:
        other = f'model second {{ service openai {{ url "{second.url}" model "m" }} offered true }}'
        async with acting(tmp_path, program(first, models=other)) as agent:
            ada = await users.add(agent.app.state.database, "ada", 0)
            await configure(agent, ada, model="second", system_prompt="You teach.", preferences={"style": "brief"})
            assert await agent.ask("Hello?", user_id=ada) == "answered"
            assert await agent.ask("Hello?") == "answered"
            delivery = await agent.deliver({"a": 1}, user_id=ada)
            assert await agent.end(delivery) == "answered"
            async with agent.app.pinned():
                shown = await AdminCall("agent_context_preview", {}, "ada").answer(agent.app.admin_context())
        assert [len(each.bodies) for each in (first, second)] == [1, 2]
        theirs, owners = second.texts(0), first.texts(0)
        assert ("You teach." in theirs, "You help." in theirs, "style: brief" in theirs) == (True, False, True)
        assert ("You teach." in owners, "You help." in owners, "style: brief" in owners) == (False, True, False)
        assert "You teach." in shown["messages"][0]["content"]


async def test_settings_are_read_once_in_an_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, str]] = []
    get = AgentSettings.get

    async def counting(settings: AgentSettings, user_id: str, agent: str) -> Any:
        read.append((user_id, agent))
        return await get(settings, user_id, agent)

    monkeypatch.setattr(AgentSettings, "get", counting)
    with ScriptedModel(says(memory_append={"label": "human", "content": "Tea."}), says("Noted.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("I like tea.") == "answered"
    assert read == [(OWNER, "helper")]


async def test_turns_of_a_user_who_switched_the_agent_off_wait_and_go_on(tmp_path: Path) -> None:
    with ScriptedModel(says("Here.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            ada = await users.add(agent.app.state.database, "ada", 0)
            await configure(agent, ada, enabled=False, max_tokens=9000)
            message, delivery = await agent.send("Hello?", user_id=ada), await agent.deliver({"a": 1}, user_id=ada)
            for turn in (message, delivery):
                waits = await agent.until(turn, lambda row: row.state == SWITCHED_OFF)
                assert "switched off" in waits.error
            assert await agent.ask("Hello?") == "answered"
            assert len(model.bodies) == 1
            (stored,) = await rows(agent.app.state.database, deliveries)
            assert stored.state == "queued"
            async with agent.app.pinned():
                with pytest.raises(SwitchedOff):
                    await AdminCall("chat_open", {}, "ada").answer(agent.app.admin_context())
                here = agent.app.admin_context()
                listed = [await AdminCall("agent_list", {}, name).answer(here) for name in ("ada", OWNER)]
            assert [each["agents"][0]["enabled"] for each in listed] == [False, True]
            async with agent.app.open_context(Caller(ada, frozenset({"write"}))) as context:
                with pytest.raises(SwitchedOff) as refused:
                    await ALL_TOOLS.call("agent_chat", context, {"input": "Hello?"})
            assert problem_of(refused.value).status == 503
            # Another setting alone does not switch it on.
            await configure(agent, ada, enabled=False, max_tokens=8000)
            assert (await agent.run(message)).state == SWITCHED_OFF
            await configure(agent, ada, max_tokens=8000)
            assert [await agent.end(turn) for turn in (message, delivery)] == ["answered", "answered"]


async def test_turns_go_on_when_the_program_does_not_let_the_user_switch_off(tmp_path: Path) -> None:
    with ScriptedModel(says("Here.")) as model:
        for number, (changed, ended) in enumerate(
            [
                (program(model, "lock [enabled]"), "answered"),
                (program(model, chosen=""), None),
                (program(model, "enabled false"), None),
            ]
        ):
            folder = tmp_path / str(number)
            folder.mkdir()
            async with acting(folder, program(model), kept=True) as agent:
                await configure(agent, enabled=False)
                delivery = await agent.deliver({"a": 1})
                await agent.until(delivery, lambda row: row.state == SWITCHED_OFF)
                await agent.reload(changed)
                if number < 2:
                    assert await agent.end(delivery) == ended
                else:
                    # As always when the program disables it, the delivery is kept, and sent again by command.
                    async with asyncio.timeout(60):
                        while (await rows(agent.app.state.database, deliveries))[0].state != "agent_gone":
                            await asyncio.sleep(0.02)


async def test_a_setting_that_the_program_locks_meanwhile_is_the_programs(tmp_path: Path) -> None:
    with ScriptedModel(503) as first, ScriptedModel(says("From the second.")) as second:
        other = f'model second {{ service openai {{ url "{second.url}" model "m" }} offered true }}'
        async with acting(tmp_path, program(first, models=other), kept=True) as agent:
            await configure(agent, system_prompt="You teach.")
            message = await agent.send("Hello?")
            await agent.until(message, lambda row: row.state == "model_unavailable")
            await configure(agent, model="second", system_prompt="You teach.")
            await agent.reload(program(first, "lock [system_prompt]", models=other))
            assert await agent.end(message) == "answered"
            await agent.reload(program(first))
            first.replies = [says("From the first.")]
            assert await agent.ask("And now?") == "answered"
        assert "You help." in second.texts(0)
        # The model of the user is not there any more.
        assert "You teach." in first.texts(-1)


async def test_settings_that_cannot_be_read_stop_the_agent_until_they_are_replaced(tmp_path: Path) -> None:
    with ScriptedModel(says("Here.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            await agent.services.settings.put(OWNER, "other", {"enabled": False})
            async with agent.app.state.database.write() as connection:
                await connection.execute(agent_settings.update().values(agent="helper"))
            with pytest.raises(Unsealable):
                await agent.services.settings.get(OWNER, "helper")
            message = await agent.send("Hello?")
            assert "cannot be read" in (await agent.until(message, lambda row: row.state == SWITCHED_OFF)).error
            await configure(agent)
            assert await agent.end(message) == "answered"
