"""Every transport keeps the same promises, tried with the SDK's client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from runtime.tools import TOOLS
from runtime.tools.model.schema import first_paragraph
from runtime.tools.resources import RESOURCES, SCHEME, SCHEMES
from tests.lanes import LONG
from tests.runtime.daemon.running import Daemon, running, until
from tests.runtime.daemon.v1 import make_token
from tests.runtime.mcp.connected import Connected, Mode, over_http, over_stdio
from tests.runtime.mcp.slow_model import SlowModel, slow_model

PROGRAM = """\
memory notes {{
    store     collection
    embedding hashing
}}
memory slow {{
    store     collection
    embedding ollama {{ url "{url}" }}
}}
"""

# The transports and revisions: a process that owns its root, one beside a daemon, and HTTP with a token.
WAYS: dict[str, tuple[str, Mode]] = {
    "stdio-owner": ("owner", "legacy"),
    "stdio-beside-a-daemon": ("beside", "auto"),
    "http": ("http", "legacy"),
    "http-newest": ("http", "auto"),
}


@pytest.fixture(scope="module")
def model() -> Iterator[SlowModel]:
    with slow_model() as running_model:
        yield running_model


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, model: SlowModel) -> Iterator[Daemon]:
    with running(_root(tmp_path_factory, model), "notes.symbiont") as started:
        yield started


@pytest.fixture(
    scope="module", params=[pytest.param(way, marks=LONG if way in ("stdio-owner", "http") else ()) for way in WAYS]
)
def connected(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model: SlowModel
) -> Iterator[Connected]:
    """A client of each transport."""
    way, mode = WAYS[request.param]
    with ExitStack() as stack:
        if way == "owner":
            root = _root(tmp_path_factory, model)
            yield stack.enter_context(over_stdio(root, "--output-schemas", mode=mode, log=root / "client.log"))
            assert (root / "client.log").read_text() == ""
            return
        daemon: Daemon = request.getfixturevalue("daemon")
        if way == "beside":
            options = ("--output-schemas",)
            yield stack.enter_context(over_stdio(daemon.root, *options, mode=mode, log=daemon.root / "client.log"))
            return
        token = make_token(daemon, "--label", "everything", "--scope", "admin")
        query = "?tools=all,approvals&output_schemas=true"
        yield stack.enter_context(over_http(daemon, token, mode=mode, query=query))


@pytest.fixture
def project(request: pytest.FixtureRequest) -> str:
    """A project that only this test uses."""
    return str(request.node.name)


def _root(factory: pytest.TempPathFactory, model: SlowModel) -> Path:
    root = factory.mktemp("root")
    (root / "notes.symbiont").write_text(PROGRAM.format(url=model.url))
    return root


def test_it_says_who_it_is_and_what_its_tools_are_for(connected: Connected) -> None:
    assert connected.client.server_info is not None
    assert connected.client.server_info.name == "symbiont"
    assert "push" in (connected.client.instructions or "")


def test_every_tool_of_the_table_is_listed_with_what_the_table_says_of_it(connected: Connected) -> None:
    listed = {tool.name: tool for tool in connected.ask(lambda client: client.list_tools()).tools}
    assert listed.keys() == TOOLS.keys()
    for name, row in TOOLS.items():
        told = listed[name]
        assert (told.title, told.description) == (row.title, first_paragraph(row.doc))
        assert told.input_schema["properties"].keys() == row.parameters.model_fields.keys()
        assert told.annotations is not None
        assert told.annotations.read_only_hint == row.read_only
        assert told.annotations.destructive_hint == row.destructive
        assert told.annotations.idempotent_hint == row.idempotent
        assert told.annotations.open_world_hint is False


def test_what_is_pushed_is_found_read_changed_and_forgotten(connected: Connected, project: str) -> None:
    kept = connected.content("push", text="Deploys stop on Fridays at noon.", project_id=project, tags=["rule"])
    assert (kept["inserted"], kept["skippedDuplicates"]) == (1, 0)
    (memory_id,) = kept["memory_ids"]
    found = connected.content("search", query_text="when do deploys stop", project=project, k=3)
    assert [hit["memory_id"] for hit in found["hits"]] == [memory_id]
    assert "Fridays" in found["context"]
    assert found["used_filters"]["project_id"] == project
    assert connected.content("get", memory_id=memory_id)["tags"] == ["rule"]
    assert connected.content("update", memory_id=memory_id, tags=["law"])["tags"] == ["law"]
    assert connected.content("forget", memory_id=memory_id)["memory_id"] == memory_id
    assert connected.content("search", query_text="deploys", project_id=project)["hits"] == []


def test_the_same_is_not_kept_twice(connected: Connected, project: str) -> None:
    for times in (0, 1):
        kept = connected.content("push", text="Said again.", project_id=project)
        assert (kept["inserted"], kept["skippedDuplicates"]) == (1 - times, times)


def test_collections_are_listed_made_and_counted(connected: Connected) -> None:
    connected.content("new-collection", name="letters")
    there = {row["name"] for row in connected.content("get-collections")["collections"]}
    assert {"notes", "letters"} <= there
    assert connected.content("metrics")["collections"]


def test_a_result_is_text_and_structure_alike(connected: Connected) -> None:
    result = connected.call("get-collections")
    (text,) = result.content
    assert json.loads(text.text) == result.structured_content


def test_an_error_tells_the_model_the_field_and_a_right_example(connected: Connected) -> None:
    result = connected.call("search", query_text="anything", limit=0)
    assert result.is_error
    (text,) = result.content
    assert text.text.startswith("invalid_params: limit: ")
    assert 'For example: {"limit": ' in text.text
    error = result.structured_content["error"]
    assert (error["code"], error["field"]) == ("invalid_params", "limit")
    assert error["example"]["limit"] > 0


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("search", {"query_text": "x", "limit": "3"}),
        ("search", {"query": "x", "k": 3.0, "project_id": ""}),
        ("push", {"items": '[{"text": "Sent as a text."}]', "memory_type": ""}),
        ("task_create", {"title": "x", "tags": '["home"]', "due_date": ""}),
        ("task_list", {"tags": "home", "limit": "50"}),
        ("agent_memory_set", {"key": "numbers", "value": {"a": "1"}, "tags": '["a", "b"]'}),
        ("memory_list", {"limit": "10", "since": ""}),
    ],
)
def test_arguments_that_a_client_wrote_as_texts_are_read_by_the_schema(
    connected: Connected, tool: str, given: dict[str, Any]
) -> None:
    result = connected.call(tool, **given)
    assert not result.is_error, result.content


def test_a_text_that_belongs_where_it_is_stays_one(connected: Connected) -> None:
    connected.content("agent_memory_set", key="5", value="7")
    assert connected.content("agent_memory_get", key="5")["entries"][0]["value"] == "7"
    assert connected.call("search", query_text="x", limit="many").is_error


def test_a_client_that_asks_for_prompts_learns_that_there_are_none(connected: Connected) -> None:
    assert connected.ask(lambda client: client.list_prompts()).prompts == []


def test_a_tool_without_parameters_refuses_others_as_every_tool_does(connected: Connected) -> None:
    wrong: tuple[dict[str, Any], ...] = ({"limit": 5}, {"limit": None}, {"": {}})
    for given in wrong:
        refused = connected.call("get-collections", **given)
        assert refused.is_error
        assert refused.content[0].text.endswith(": there are no parameters. For example: {}")
    assert connected.call("metrics", limit=5).is_error


@pytest.mark.parametrize("name", ["no-such-tool", "token_create", "resource_read", "../v1", ""])
def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(connected: Connected, name: str) -> None:
    with pytest.raises(MCPError) as refused:
        connected.call(name)
    assert refused.value.code == -32602
    assert refused.value.message == f"Unknown tool: {name}"


def test_resources_are_listed_once(connected: Connected) -> None:
    fixed = connected.ask(lambda client: client.list_resources()).resources
    open_ones = connected.ask(lambda client: client.list_resource_templates()).resource_templates
    assert {str(row.uri) for row in fixed} == {
        f"{SCHEME}{path}" for path, row in RESOURCES.items() if not row.parameters
    }
    assert {row.uri_template for row in open_ones} == {f"{SCHEME}projects/{{project_id}}/tags"}
    assert {row.mime_type for row in fixed} | {row.mime_type for row in open_ones} == {"application/json"}


def test_resources_are_read_under_both_schemes(connected: Connected, project: str) -> None:
    connected.content("push", text="Tagged.", project_id=project, tags=["blue", "azure"])
    paths = ["memory-types", "projects", f"projects/{project.replace('[', '%5B').replace(']', '%5D')}/tags", "settings"]
    read = {path: [_read(connected, f"{scheme}{path}") for scheme in SCHEMES] for path in paths}
    assert all(first == second for first, second in read.values())
    assert read["memory-types"][0] == ["episodic", "semantic", "procedural"]
    assert project in read["projects"][0]
    assert sorted(read[paths[2]][0]) == ["azure", "blue"]


@pytest.mark.parametrize("uri", ["symbiont://nothing", "file:///etc/passwd", "mcp://rusty-mem/../keys"])
def test_a_resource_that_is_not_there_is_an_error_that_says_what_there_is(connected: Connected, uri: str) -> None:
    with pytest.raises(MCPError) as refused:
        _read(connected, uri)
    assert refused.value.code == -32002
    assert refused.value.message.startswith("not_found: ")


def test_progress_only_grows_and_ends_at_its_total(connected: Connected, project: str) -> None:
    told: list[tuple[float, float | None]] = []
    items = [{"text": f"Line {number} of the log."} for number in range(400)]

    async def push(client: Client) -> Any:
        async def note(progress: float, total: float | None, message: str | None) -> None:
            told.append((progress, total))

        pushed = {"items": items, "project_id": project}
        return await client.call_tool("push", pushed, progress_callback=note)

    assert not connected.ask(push).is_error
    # The client may call back after it has returned the result.
    until(lambda: told and told[-1] == (len(items), len(items)), what="the last progress")
    done = [progress for progress, _ in told]
    assert done == sorted(set(done))


def test_a_cancelled_call_is_cancelled(connected: Connected, model: SlowModel, project: str) -> None:
    connected.content("push", text="Something is there.", collection="slow", project_id=project)

    async def cancelled(client: Client) -> None:
        asked = {"query_text": "wait for ever", "collection": "slow"}
        call = asyncio.ensure_future(client.call_tool("search", asked))
        assert await asyncio.to_thread(model.asked.acquire, timeout=60)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    connected.ask(cancelled)
    assert model.left.acquire(timeout=60)
    # The connection still works.
    assert connected.content("get-collections")["collections"]


def test_many_calls_at_once_are_answered_each_with_its_own(connected: Connected, project: str) -> None:
    async def push(client: Client, number: int) -> Any:
        return await client.call_tool("push", {"text": f"Number {number}.", "project_id": f"{project}-{number}"})

    async def all_of_them(client: Client) -> list[Any]:
        return await asyncio.gather(*(push(client, number) for number in range(12)))

    ids = [result.structured_content["memory_ids"][0] for result in connected.ask(all_of_them)]
    assert len(set(ids)) == len(ids)
    for number, memory_id in enumerate(ids):
        assert connected.content("get", memory_id=memory_id)["text"] == f"Number {number}."


def _read(connected: Connected, uri: str) -> Any:
    (content,) = connected.ask(lambda client: client.read_resource(uri)).contents
    assert content.mime_type == "application/json"
    assert str(content.uri) == uri
    return json.loads(content.text)  # type: ignore[union-attr]
