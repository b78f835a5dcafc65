"""Readiness says before a run what an agent lacks: its model, or room in the window."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.api.admin.readiness import readiness
from runtime.memory.core.block import BlockScope, Origin
from tests.lanes import first_of
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import Refusal, ScriptedModel, says

SMALL = "context { max_tokens 3000 reply_tokens 400 }"
LONG = "word " * 3000


async def checks(agent: Acting) -> dict[str, tuple[str, str]]:
    """Return status and text of each check."""
    async with agent.app.pinned():
        answer = await readiness(agent.app.admin_context(), {})
    return {row["check"]: (row["status"], row["text"]) for row in answer["checks"]}


@first_of("fails", [503, Refusal(0)])
async def test_a_model_that_fails_is_red_and_says_why_until_it_answers(tmp_path: Path, fails: int | Refusal) -> None:
    state = {"away": True}

    def answer(_: object) -> int | str | Refusal:
        return fails if state["away"] else says("I am back.")

    with ScriptedModel(answer) as model:
        async with acting(tmp_path, program(model)) as agent:
            turn = await agent.send("Hello.")
            await agent.until(turn, lambda row: row.state == "model_unavailable")
            level, text = (await checks(agent))["model scripted"]
            assert level == "RED"
            assert f"127.0.0.1:{model.port}" in text
            assert text.endswith("; agents without a model: helper")
            state["away"] = False
            assert await agent.end(turn) == "answered"
            assert (await checks(agent))["model scripted"] == ("GREEN", "openai, m")


async def test_an_agent_that_has_room_is_green(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            level, text = (await checks(agent))["context of helper"]
            assert (level, "before the first message" in text) == ("GREEN", True)
        assert model.bodies == []


async def test_an_instruction_that_leaves_no_room_is_red_before_a_run(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        text = program(model, SMALL).replace("You help.", LONG)
        async with acting(tmp_path, text) as agent:
            level, text = (await checks(agent))["context of helper"]
            assert level == "RED"
            assert text.startswith("every run fails: the instruction has about ")
            assert "shorten the instruction" in text


async def test_what_gives_way_to_the_window_is_yellow_before_a_run(tmp_path: Path) -> None:
    block = f'block notes {{ value "{LONG}" }}'
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model, f"{SMALL} {block}")) as agent:
            level, text = (await checks(agent))["context of helper"]
            assert level == "YELLOW"
            assert "tools are left out: the window is too small" in text
            assert "the block notes is shortened: " in text


async def test_a_block_that_grew_is_counted_as_it_is_now(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model, SMALL)) as agent:
            assert await agent.ask("Hello.") == "answered"
            scope = BlockScope((await agent.main()).user_id, "helper", None)
            await agent.services.blocks.write(scope, "human", LONG, Origin("person"))
            level, text = (await checks(agent))["context of helper"]
            assert (level, "the block human is shortened: " in text) == ("YELLOW", True)


@pytest.mark.parametrize(("more", "chosen"), [("enabled false", "model scripted"), ("", "model none"), ("", "")])
async def test_a_recorder_and_a_disabled_agent_need_no_room(tmp_path: Path, more: str, chosen: str) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model, more, chosen=chosen)) as agent:
            assert "context of helper" not in await checks(agent)
