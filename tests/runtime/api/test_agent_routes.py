"""`/v1/agents/{agent}`, and `/v1/agent` for the main agent: the same routes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator

from runtime.api.rest.endpoints import ENDPOINTS, Endpoint, endpoints_at
from runtime.api.rest.handler import ApiResponse
from runtime.api.rest.openapi import describe
from runtime.tools.toolset import ALL_TOOLS
from tests.runtime.api.agents import PROGRAM, talked, with_agents
from tests.runtime.api.app import App, program_of, told

DOCUMENT: dict[str, Any] = json.loads(describe())
OF_AGENTS = [row for row in ENDPOINTS if row.path.startswith("/v1/agents/")]
ROWS = [row for row in OF_AGENTS if row.follow is None and "run" not in row.tool.parameters.model_fields]
"""Those for which no agent runs."""
EXAMPLES = {
    "agent": "assistant",
    "label": "human",
    "memory_id": str(UUID(int=1)),
    "conversation_id": str(UUID(int=1)),
    "item_id": f"msg_{UUID(int=1).hex}_0_0",
    "run": str(UUID(int=1)),
}
BOTH = pytest.mark.parametrize("path", ["/v1/agent", "/v1/agents/assistant"])


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with with_agents(tmp_path) as one:
        yield one


def refused(reply: ApiResponse, status: int) -> str:
    assert reply.status == status, reply
    problem = told(reply)
    return json.dumps([problem["detail"], problem.get("hint"), problem.get("errors")])


def test_each_route_is_there_for_the_main_agent_and_by_name() -> None:
    for row in OF_AGENTS:
        assert row.in_path[0] == "agent"
        given = {name: (row.tool.example or {}).get(name, EXAMPLES.get(name)) for name in row.in_path}
        path = row.path.format_map(given)
        assert endpoints_at(path)[row.method] == (row, given)
        main = endpoints_at(path.replace(f"/v1/agents/{given['agent']}", "/v1/agent"))[row.method]
        assert main == (row, {name: value for name, value in given.items() if name != "agent"})
    assert {row.path for row in OF_AGENTS} >= {f"/v1/agents/{{agent}}/{each}" for each in ("config", "context", "chat")}
    for path in ("/v1/agent", "/v1/agent/", "/v1/agents//config", "/v1/agents/a/b/config", "/v1/agent/config/"):
        assert endpoints_at(path) == {}


def sent(row: Endpoint, ids: dict[str, str]) -> tuple[str, str, Any]:
    """Return the path, query and body of the example in the document, with ids that there are."""
    operation = DOCUMENT["paths"][row.path][row.method.lower()]
    parameters = {each["name"]: each.get("example") for each in operation.get("parameters", ())}
    body = operation["requestBody"]["content"]["application/json"]["example"] if row.body else None
    path = row.path.format_map({name: ids.get(name, parameters[name]) for name in row.in_path})
    query = {name: value for name, value in parameters.items() if name not in row.in_path and value is not None}
    return path, urlencode(query, doseq=True), body


async def test_the_example_of_each_route_is_answered_as_described(app: App) -> None:
    for number, row in enumerate(ROWS):
        name = f"ada-{number}"
        token, ada = await app.token(name), await app.user(name)
        thread, _ = await talked(app, ada)
        await app.ask(token, "PUT", "/v1/agent/memory/blocks/human", {"value": "Ada", "version": 1})
        await app.ask(token, "PUT", "/v1/agent/memory/blocks/human", {"value": "Ada, Lyon", "version": 2})
        kept = told(await app.ask(token, "POST", "/v1/agent/memory/archival", {"content": "Ada lives in Lyon."}))
        item = f"msg_{UUID(thread.id).hex}_0_0"
        path, query, body = sent(row, {"conversation_id": thread.id, "item_id": item, "memory_id": kept["memory_id"]})
        reply = await app.ask(token, row.method, path, body, query=query)
        assert reply.status == row.status, (row, reply)
        content = DOCUMENT["paths"][row.path][row.method.lower()]["responses"][str(row.status)]["content"]
        schema = {**content["application/json"]["schema"], "components": DOCUMENT["components"]}
        Draft202012Validator(schema).validate(told(reply))
        for header, location in reply.headers:
            if header == "Location":
                assert told(await app.ask(token, "GET", location))


async def test_the_main_agent_is_the_one_that_says_so_else_the_only_one_with_a_model(app: App) -> None:
    token = await app.token()
    for program, answer in (
        (PROGRAM, "assistant"),
        ("agent a { model ollama } agent recorder {}", "a"),
        ("agent a { model ollama enabled false } agent b { model ollama }", "b"),
        ("agent a { model ollama enabled false }", "a"),
        ("agent a { model ollama enabled false main true } agent b { model ollama }", "a"),
    ):
        app.program = program_of(program)
        assert told(await app.ask(token, "GET", "/v1/agent/config"))["agent"] == answer
        main = [each["agent"] for each in told(await app.ask(token, "GET", "/v1/agents"))["agents"] if each["main"]]
        assert main == [answer]
    app.program = program_of("agent recorder {}")
    assert "no agent has a model" in refused(await app.ask(token, "GET", "/v1/agent/config"), 404)
    app.program = program_of("agent writer { model ollama } agent helper { model ollama }")
    told_apart = refused(await app.ask(token, "GET", "/v1/agent/config"), 409)
    assert "helper, writer" in told_apart
    assert "main true" in told_apart
    assert not any(each["main"] for each in told(await app.ask(token, "GET", "/v1/agents"))["agents"])


async def test_the_path_says_whose_agent_it_is(app: App) -> None:
    token = await app.token()
    for method, path, given in (
        ("GET", "/v1/agent/config", "agent=researcher"),
        ("GET", "/v1/agent/conversations", "agent=researcher"),
    ):
        assert "agent belongs in the path" in refused(await app.ask(token, method, path, query=given), 400)
    body = {"agent": "researcher", "max_tokens": 2000, "version": 0}
    assert "agent belongs in the path" in refused(await app.ask(token, "PUT", "/v1/agent/config", body), 400)
    assert (await app.ask(token, "GET", "/v1/agents/assistant/config", query="agent=researcher")).status == 400


@BOTH
async def test_a_block_is_put_with_the_version_that_it_replaces(path: str, app: App) -> None:
    token, block = await app.token("ada"), f"{path}/memory/blocks/human"
    for body in ({"value": "x"}, {"value": "x", "version": None}):
        assert "/version" in refused(await app.ask(token, "PUT", block, body), 422)
    version = told(await app.ask(token, "GET", block))["version"]
    done = told(await app.ask(token, "PUT", block, {"value": "Name: Ada", "version": version}))
    assert (done["version"], done["changed"]) == (version + 1, True)
    refused(await app.ask(token, "PUT", block, {"value": "Name: Bob", "version": version}), 409)
    assert told(await app.ask(token, "GET", block))["value"] == "Name: Ada"
    restored = told(await app.ask(token, "POST", f"{block}/restore", {"version": version}))
    assert restored["version"] == version + 2
    history = told(await app.ask(token, "GET", f"{block}/history", query="limit=2"))["versions"]
    assert [each["value"] for each in history] == ["", "Name: Ada"]


async def test_a_label_is_a_name_and_nothing_else(app: App) -> None:
    token = await app.token()
    for label in ("", "..", "%2e%2e", "a%2Fb", "a/b/c", "x" * 65, "%F0%9F%98%80", "a%00", "human%20", "; id"):
        assert (await app.ask(token, "GET", f"/v1/agent/memory/blocks/{label}")).status in {404, 422}, label
        body = {"value": "x", "version": 1}
        assert (await app.ask(token, "PUT", f"/v1/agent/memory/blocks/{label}", body)).status in {404, 405, 422}, label
    assert len(told(await app.ask(token, "GET", "/v1/agent/memory/blocks"))["blocks"]) == 3


async def test_archival_memory_and_conversations_are_the_users_own(app: App) -> None:
    ada, bob = await app.token("ada"), await app.token("bob")
    insert = {"content": "Ada lives in Lyon.", "tags": ["home"]}
    kept = told(await app.ask(ada, "POST", "/v1/agent/memory/archival", insert))["memory_id"]
    for subject in (None, "s1"):
        body = {"content": f"About {subject}.", **({"subject": subject} if subject else {})}
        assert (await app.ask(ada, "POST", "/v1/agent/memory/archival", body)).status == 200

    async def found(token: str, **given: Any) -> list[str]:
        body = {"query": "where does Ada live, about s1", **given}
        reply = told(await app.ask(token, "POST", "/v1/agent/memory/search", body))
        return sorted(hit["content"] for hit in reply["archival"])

    assert await found(ada) == ["About None.", "Ada lives in Lyon."]
    assert await found(ada, tags=["home"]) == ["Ada lives in Lyon."]
    assert await found(ada, subject="s1") == ["About s1."]
    assert await found(bob) == []
    absent = "00000000-0000-7000-8000-000000000000"
    theirs, none = [
        refused(await app.ask(bob, "DELETE", f"/v1/agent/memory/archival/{each}"), 404) for each in (kept, absent)
    ]
    assert theirs == none.replace(absent, kept)
    # Another agent's item is not one of the agent's, nor is one of a subject.
    refused(await app.ask(ada, "DELETE", f"/v1/agents/researcher/memory/archival/{kept}"), 404)
    refused(await app.ask(ada, "DELETE", f"/v1/agent/memory/archival/{kept}", query="subject=s1"), 404)
    assert (await app.ask(ada, "DELETE", f"/v1/agent/memory/archival/{kept}")).status == 200
    refused(await app.ask(ada, "DELETE", f"/v1/agent/memory/archival/{kept}"), 404)
    assert await found(ada) == ["About None."]


def test_tools_for_people_are_no_tools_of_agents() -> None:
    for row in OF_AGENTS:
        own = row.tool.name.startswith(("agent_block_", "archival_"))
        assert own or ALL_TOOLS[row.tool.name].people, row
