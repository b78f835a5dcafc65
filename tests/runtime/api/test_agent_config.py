"""The settings that a user gives an agent over HTTP, in place of the program's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.agent import AgentContext
from dslc.blocks.setting import settings_of
from runtime.api.rest.handler import ApiResponse
from runtime.database.schema import agent_settings
from runtime.tools import TOOLS
from tests.runtime.api.agents import PROGRAM, with_agents
from tests.runtime.api.app import App, program_of, told
from tests.runtime.webhooks.candidates import rows

CONFIG = "/v1/agent/config"
STRONG = "model strong { service ollama window 4096 }"
EVERYTHING = {
    "enabled": False,
    "model": "strong",
    "max_tokens": 2000,
    "compaction_threshold": 0.5,
    "system_prompt": "You teach.",
    "preferences": {"language": "Italian", "short": True, "level": 2},
}
PROGRAMS = {
    "enabled": True,
    "model": "fast",
    "max_tokens": 9000,
    "compaction_threshold": 0.8,
    "system_prompt": "You help.",
    "preferences": {},
}


WRONG: list[tuple[str, list[Any]]] = [
    ("max_tokens", [0, 1, 1023, -1, 10**30, 1.5, "9", True, 1500, 1499]),
    ("compaction_threshold", [0.09, 1.01, "x", -1]),
    ("system_prompt", ["", "  \n", 1, "x" * 100_001]),
    ("preferences", [[], "x", {"": 1}, {"a\nb": 1}, {"x" * 101: 1}, {"a": {}}, {"a": [1]}, {"a": "x" * 2001}]),
    ("preferences", [{str(number): 1 for number in range(101)}]),
    ("enabled", ["false"]),
    ("model", ["../x"]),
    ("version", [-1]),
    ("timezone", ["UTC"]),
]
"""Values that are refused. A reply of the agent has 1500 tokens."""


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with with_agents(tmp_path) as one:
        yield one


async def put(app: App, token: str, path: str, body: dict[str, Any]) -> ApiResponse:
    """Replace the settings, whatever their version is."""
    version = told(await app.ask(token, "GET", path))["version"]
    return await app.ask(token, "PUT", path, {"version": version, **body})


def refused(reply: ApiResponse, status: int) -> str:
    assert reply.status == status, reply
    problem = told(reply)
    return json.dumps([problem["detail"], problem.get("hint"), problem.get("errors")])


def values(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in PROGRAMS}


async def test_each_setting_takes_the_place_of_the_programs_for_its_user_alone(app: App) -> None:
    ada, bob = await app.token("ada"), await app.token("bob")
    before = told(await app.ask(ada, "GET", CONFIG))
    assert values(before) == PROGRAMS
    assert (before["overridden"], before["locked"], before["version"]) == ([], [], 0)
    assert before["offered_models"] == ["fast", "strong"]
    changed = told(await put(app, ada, CONFIG, EVERYTHING))
    assert values(changed) == EVERYTHING
    assert changed["overridden"] == list(PROGRAMS)
    assert told(await app.ask(ada, "GET", CONFIG)) == changed
    assert values(told(await app.ask(bob, "GET", CONFIG))) == PROGRAMS
    assert values(told(await app.ask(ada, "GET", "/v1/agents/researcher/config")))["system_prompt"] == ""
    (sealed,) = await rows(app.database, agent_settings)
    assert b"teach" not in sealed.settings
    # A put replaces all of them, and null takes one back.
    fewer = told(await put(app, ada, CONFIG, {"max_tokens": 3000, "model": None}))
    assert values(fewer) == {**PROGRAMS, "max_tokens": 3000}
    assert fewer["overridden"] == ["max_tokens"]
    assert values(told(await put(app, ada, CONFIG, {}))) == PROGRAMS
    assert not await rows(app.database, agent_settings)


async def test_what_the_program_locks_cannot_be_changed_and_what_was_stored_is_ignored(app: App) -> None:
    token = await app.token("ada")
    await put(app, token, CONFIG, EVERYTHING)
    app.program = program_of(PROGRAM.replace("main true", "main true lock [enabled model system_prompt]"))
    shown = told(await app.ask(token, "GET", CONFIG))
    locked = {"enabled", "model", "system_prompt"}
    assert values(shown) == {**EVERYTHING, **{name: PROGRAMS[name] for name in locked}}
    assert set(shown["locked"]) == locked
    assert not locked & set(shown["overridden"])
    assert all(any(name in note and "locks" in note for note in shown["notes"]) for name in locked)
    for name in locked:
        body = {name: EVERYTHING[name], "max_tokens": 4000}
        told_why = refused(await put(app, token, CONFIG, body), 409)
        assert f"{name}: `lock` in the block `agent assistant`" in told_why
        assert ".symbiont" not in told_why, "files are named to administrators only"
    assert told(await app.ask(token, "GET", CONFIG)) == shown
    assert told(await put(app, token, CONFIG, {"max_tokens": 4000, "model": None}))["notes"] == []


async def test_a_model_that_is_offered_no_more_is_the_programs_again_with_a_note(app: App) -> None:
    token = await app.token("ada")
    await put(app, token, CONFIG, {"model": "strong"})
    app.program = program_of("model fast { service ollama } agent assistant { model fast }")
    shown = told(await app.ask(token, "GET", CONFIG))
    assert (shown["model"], shown["overridden"]) == ("fast", [])
    assert any("strong" in note for note in shown["notes"])
    assert "fast" in refused(await put(app, token, CONFIG, {"model": "fsat"}), 422)
    assert "/model" in refused(await put(app, token, CONFIG, {"model": "ollama"}), 422)


async def test_only_models_that_the_program_offers_are_a_users(app: App) -> None:
    token = await app.token("ada")
    told_why = refused(await put(app, token, CONFIG, {"model": "hidden"}), 422)
    assert "the program does not offer the model hidden" in told_why
    assert "fast" in told_why
    await put(app, token, CONFIG, {"model": "strong"})
    app.program = program_of(PROGRAM.replace("model strong { service ollama window 4096 offered true }", STRONG))
    shown = told(await app.ask(token, "GET", CONFIG))
    assert (shown["model"], shown["offered_models"]) == ("fast", ["fast"])
    assert any("does not offer the model strong" in note for note in shown["notes"])


async def test_a_model_without_prices_is_not_offered_for_an_agent_whose_costs_are_limited(app: App) -> None:
    token = await app.token("ada")
    prices = "offered true input_price 1 output_price 2"
    program = PROGRAM.replace("model fast { service ollama offered true }", f"model fast {{ service ollama {prices} }}")
    app.program = program_of(program.replace("main true", "main true limits { cost_per_day 1 }"))
    assert told(await app.ask(token, "GET", CONFIG))["offered_models"] == ["fast"]
    assert "no prices" in refused(await put(app, token, CONFIG, {"model": "strong"}), 422)
    assert told(await app.ask(token, "GET", "/v1/agents/researcher/config"))["offered_models"] == ["fast", "strong"]


async def test_values_have_the_bounds_of_the_language(app: App) -> None:
    token = await app.token("ada")
    for name, wrong in ((name, each) for name, values in WRONG for each in values):
        assert f"/{name}" in refused(await put(app, token, CONFIG, {name: wrong}), 422), (name, wrong)
    assert told(await app.ask(token, "GET", CONFIG))["version"] == 0
    for right in ({"max_tokens": 1501, "compaction_threshold": 0.1}, {"compaction_threshold": 1}):
        assert (await put(app, token, CONFIG, right)).status == 200
    bounds = {setting.name: setting for setting in settings_of(AgentContext)}
    for name in ("max_tokens", "compaction_threshold"):
        schema = next(
            each for each in TOOLS["agent_config_edit"].schema["properties"][name]["anyOf"] if "minimum" in each
        )
        assert (schema["minimum"], schema["maximum"]) == (bounds[name].minimum, bounds[name].maximum)


async def test_of_two_changes_to_one_version_one_counts(app: App) -> None:
    token = await app.token("ada")
    version = told(await put(app, token, CONFIG, {"max_tokens": 2000}))["version"]
    puts = (app.ask(token, "PUT", CONFIG, {"max_tokens": 2001 + n, "version": version}) for n in range(5))
    statuses = sorted([reply.status for reply in await asyncio.gather(*puts)])
    assert statuses == [200, 409, 409, 409, 409]
    shown = told(await app.ask(token, "GET", CONFIG))
    assert shown["version"] > version
    assert (await app.ask(token, "PUT", CONFIG, {"max_tokens": 2000, "version": 0})).status == 409
    for body in ({"max_tokens": 2000}, {"max_tokens": 2000, "version": None}):
        assert "/version" in refused(await app.ask(token, "PUT", CONFIG, body), 422)


async def test_there_is_no_config_of_what_is_no_agent_with_a_model(app: App) -> None:
    token = await app.token("ada")
    for method, body in (("GET", None), ("PUT", {"max_tokens": 2000, "version": 0})):
        assert "assistant" in refused(await app.ask(token, method, "/v1/agents/asistant/config", body), 404)
        assert "no model" in refused(await app.ask(token, method, "/v1/agents/recorder/config", body), 422)
    assert not await rows(app.database, agent_settings)


async def test_what_the_program_disables_no_user_enables(app: App) -> None:
    token = await app.token("ada")
    app.program = program_of(PROGRAM.replace("main true", "main true enabled false"))
    shown = told(await put(app, token, CONFIG, {"enabled": True}))
    assert shown["enabled"] is False
    assert any("disables" in note for note in shown["notes"])
    listed = {each["agent"]: each for each in told(await app.ask(token, "GET", "/v1/agents"))["agents"]}
    assert not listed["assistant"]["enabled"]
    await put(app, token, "/v1/agents/researcher/config", {"enabled": False, "model": "fast"})
    listed = {each["agent"]: each for each in told(await app.ask(token, "GET", "/v1/agents"))["agents"]}
    assert (listed["researcher"]["enabled"], listed["researcher"]["model"]) == (False, "fast")
    assert (listed["recorder"]["enabled"], listed["recorder"]["model"]) == (True, None)


async def test_settings_that_cannot_be_read_are_shown_as_such_and_can_be_replaced(app: App) -> None:
    token = await app.token("ada")
    await put(app, token, CONFIG, EVERYTHING)
    async with app.database.write() as connection:
        # They are sealed for another agent.
        await connection.execute(agent_settings.update().values(agent="researcher"))
    unread = "/v1/agents/researcher/config"
    shown = told(await app.ask(token, "GET", unread))
    assert (shown["enabled"], shown["overridden"]) == (False, [])
    assert "cannot be read" in shown["notes"][0]
    assert shown["version"] > 0
    listed = {each["agent"]: each for each in told(await app.ask(token, "GET", "/v1/agents"))["agents"]}
    assert not listed["researcher"]["enabled"]
    body = {"max_tokens": 3000, "version": shown["version"]}
    assert told(await put(app, token, unread, body))["enabled"] is True
    assert told(await app.ask(token, "GET", unread))["max_tokens"] == 3000
