"""The OpenAPI document describes what is served: every response conforms to it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from runtime.api.rest.endpoints import ENDPOINTS
from runtime.api.rest.handler import ApiResponse
from runtime.api.rest.openapi import describe
from runtime.database.connection import Database
from runtime.threads.thread import Threads
from runtime.tools import TOOLS
from runtime.tools.resources import RESOURCES
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.lanes import EFFORT
from tests.runtime.api.app import App, program_of, told

DOCUMENT: dict[str, Any] = json.loads(describe())
CALL_TOOL = "/v1/tools/{name}"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted({name for tool in TOOLS.values() for name in tool.parameters.model_fields})
VALUES = JSON | st.sampled_from(["reviewer", "24h", "x" * 201, "a\u0000b", True, False, 1, 200])
QUERIES = [
    *("", "limit=1", "limit=0", "cursor=x", "limit=1&limit=1", "x=1", "query=rate", "query=rate&tag=a&tag=b&limit=2"),
    *(
        "agent=reviewer",
        "agent=nobody",
        "agent=..",
        "type=fact&since=7d",
        "since=soon",
        "dry_run=true",
        "day=2026-02-14",
    ),
]
BODIES = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), VALUES, max_size=4)


def fits(reply: ApiResponse, path: str, method: str) -> None:
    """Fail unless the document contains this response of this operation."""
    described = operation_of(path, method)["responses"].get(str(reply.status))
    assert described is not None, (path, method, reply)
    if "$ref" in described:
        described = DOCUMENT["components"]["responses"][described["$ref"].rpartition("/")[2]]
    if reply.status == 204:
        assert reply.body == b""
        return
    schema = {**described["content"][str(reply.content_type)]["schema"], "components": DOCUMENT["components"]}
    errors = list(Draft202012Validator(schema).iter_errors(json.loads(reply.body)))
    assert not errors, (errors, reply)


def operation_of(path: str, method: str) -> dict[str, Any]:
    """Return the operation of a route; every tool by its name is one."""
    found: dict[str, Any] = DOCUMENT["paths"][CALL_TOOL if path.startswith("/v1/tools/") else path][method.lower()]
    return found


OPERATIONS = [operation for rows in DOCUMENT["paths"].values() for operation in rows.values()]


def test_every_resource_is_described_once_in_a_document_that_tools_read() -> None:
    described = [(method.upper(), path) for path, rows in DOCUMENT["paths"].items() for method in rows]
    by_resource = {(row.method, row.path) for row in ENDPOINTS if not row.path.startswith("/v1/tools/")}
    assert {*described} == by_resource | {("GET", f"/v1/{path}") for path in RESOURCES} | {("POST", CALL_TOOL)}
    (name,) = operation_of("/v1/tools/push", "POST")["parameters"]
    assert name["schema"]["enum"] == list(TOOLS)
    assert len({operation["operationId"] for operation in OPERATIONS}) == len(described)
    assert {tag for operation in OPERATIONS for tag in operation["tags"]} == {tag["name"] for tag in DOCUMENT["tags"]}
    assert DOCUMENT["servers"][0]["url"] == "/"
    assert len(describe()) < 300_000
    for operation in OPERATIONS:
        assert operation["summary"]
        assert "Needs the scope" in operation["description"]
        for each in operation.get("parameters", ()):
            if each["in"] == "path":
                assert each["required"], operation["operationId"]
                assert "null" not in json.dumps(each["schema"]), operation["operationId"]
                assert "default" not in json.dumps(each), operation["operationId"]


def test_no_parameter_is_described_by_two_names() -> None:
    for row in (row for row in ENDPOINTS if not row.path.startswith("/v1/tools/")):
        assert not set(row.tool.aliases).intersection(
            re.findall(r'"name": "(\w+)"', json.dumps(operation_of(row.path, row.method)))
        )


def test_a_generated_client_has_every_operation(tmp_path: Path) -> None:
    document, configuration, package = (tmp_path / name for name in ("openapi.json", "config.yml", "package"))
    document.write_bytes(describe())
    configuration.write_text("post_hooks: []\n")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning", "--path", str(document)]
    command += ["--config", str(configuration), "--output-path", str(package)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = {path.stem for path in package.glob("*/api/*/*.py")} - {"__init__"}
    assert written == {each["operationId"].replace("-", "_") for each in OPERATIONS}


def test_long_calls_are_described_with_their_events() -> None:
    for row in ENDPOINTS:
        content = operation_of(row.path, row.method)["responses"][str(row.status)].get("content", {})
        by_name = row.path.startswith("/v1/tools/")
        assert ("text/event-stream" in content) == (by_name or row.tool.long or row.follow is not None)
    assert {name for name, tool in TOOLS.items() if tool.long} > {"push", "memory_reindex", "memory_compact"}


def test_every_schema_is_one() -> None:
    for operation in OPERATIONS:
        for parameter in operation.get("parameters", ()):
            Draft202012Validator.check_schema(parameter["schema"])
            assert parameter["description"]
        if "requestBody" in operation:
            Draft202012Validator.check_schema(operation["requestBody"]["content"]["application/json"]["schema"])
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


async def test_whatever_is_asked_the_answer_is_described_and_no_failure(tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    database = await Database.open(with_keys(folder / "symbiont.db", KEY), KEY)
    async with App(database, ManualClock()).remembering(folder) as app:
        await ask_anything(app)
    await database.close()


async def ask_anything(app: App) -> None:
    tokens = [await app.token("ada", "read"), await app.token("ada", "write"), await app.token("bob", "admin")]
    there = (await app.webhook(tokens[1]))["webhook_id"]
    asked: list[tuple[int, str, str]] = []

    kept = await app.ask(tokens[1], "POST", "/v1/memory/items", {"agent": "reviewer", "text": "The rate limit is 100."})
    memory_id = told(kept)["item"]["memory_id"]
    task_id = told(await app.ask(tokens[1], "POST", "/v1/tasks", {"title": "Call Ada"}))["task_id"]
    app.program = program_of("agent assistant { model ollama }")
    conversation = await Threads(app.database, app.clock).main(await app.user("ada"), "assistant")

    @settings(max_examples=round(150 * EFFORT), deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        row=st.sampled_from(ENDPOINTS),
        token=st.sampled_from(tokens),
        webhook_id=st.sampled_from([there, str(uuid4())]),
        memory_id=st.sampled_from([memory_id, str(uuid4())]),
        task_id=st.sampled_from([task_id, str(uuid4())]),
        agent=st.sampled_from(["reviewer", "planner", "assistant", "nobody"]),
        label=st.sampled_from(["human", "nothing"]),
        conversation_id=st.sampled_from([conversation.id, str(uuid4())]),
        run=st.just(str(uuid4())),
        key=st.sampled_from(["theme", "a%2Fb", "%00", "%ff", "x" * 300]),
        approval_id=st.sampled_from(["0195e7c0", str(uuid4())]),
        standing_id=st.sampled_from(["0195e7c0", str(uuid4())]),
        item_id=st.sampled_from([f"msg_{UUID(conversation.id).hex}_0_0", f"fc_{uuid4().hex}_1_0"]),
        body=BODIES,
        raw=st.none() | st.binary(max_size=40),
        query=st.sampled_from(QUERIES) | st.text(max_size=8),
    )
    def collect(**given: Any) -> None:
        examples.append(given)

    examples: list[dict[str, Any]] = []
    collect()
    unknown: dict[str, Any] = {
        "token": tokens[1],
        "webhook_id": str(uuid4()),
        "memory_id": str(uuid4()),
        "task_id": str(uuid4()),
        "agent": "nobody",
        "label": "nothing",
        "conversation_id": str(uuid4()),
        "item_id": f"msg_{uuid4().hex}_0_0",
        "run": str(uuid4()),
        "key": "nothing",
        "approval_id": str(uuid4()),
        "standing_id": str(uuid4()),
    }
    unknown |= {"body": None, "raw": None, "query": ""}
    examples += [{**unknown, "row": row} for row in ENDPOINTS if row.method == "GET"]
    of_agent = [row for row in ENDPOINTS if row.method == "GET" and "agent" in row.others]
    examples += [{**unknown, "row": row, "query": "agent=nobody"} for row in of_agent]
    for example in examples:
        row = example["row"]
        reply = await app.ask(
            example["token"],
            row.method,
            row.path.format_map(example),
            example["body"],
            raw=example["raw"],
            query=example["query"] if not row.body else "",
        )
        assert reply.status < 500, (example, reply)
        fits(reply, row.path, row.method)
        asked.append((reply.status, row.path, row.method))
    assert {status for status, _, _ in asked} >= {200, 400, 403, 404, 422}


async def test_what_the_description_allows_is_done(tmp_path_factory: Any) -> None:
    database = await Database.open(with_keys(tmp_path_factory.mktemp("good") / "symbiont.db", KEY), KEY)
    app = App(database, ManualClock())
    token = await app.token()
    schema = DOCUMENT["paths"]["/v1/webhooks"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    validator = Draft202012Validator(schema)
    for body in (
        {"title": "x", "agent": "reviewer"},
        {"title": "Évening  build", "agent": "planner", "insecure_allow_unverified": True},
        {"title": "x" * 200, "agent": "reviewer"},
        {"title": " x", "agent": "reviewer"},
        {"title": "a\u0085b", "agent": "reviewer"},
        {"title": "a\u2069b", "agent": "reviewer"},
        {"title": "x", "agent": ""},
        {"title": "x"},
    ):
        reply = await app.ask(token, "POST", "/v1/webhooks", body)
        assert (reply.status == 201) == validator.is_valid(body), (body, told(reply))
    await database.close()
