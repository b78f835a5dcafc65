"""Collections over HTTP: the same tools under three kinds of paths, and every failure as a problem with its code."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runtime.api.rest.endpoints import ENDPOINTS, UNVERSIONED
from runtime.api.rest.problem import SCHEMA, TITLES
from runtime.database.connection import Database
from runtime.memory.collection.errors import StoreAway
from runtime.memory.errors import StoreError
from runtime.search.errors import IndexFailed
from runtime.tools import TOOLS
from runtime.tools.failure import CODES
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App, told


@pytest.fixture
async def app(tmp_path: Path, clock: ManualClock) -> AsyncIterator[App]:
    database = await Database.open(with_keys(tmp_path / "symbiont.db", KEY), KEY)
    async with App(database, clock).remembering(tmp_path) as opened:
        yield opened
    await database.close()


@pytest.fixture
async def token(app: App) -> str:
    return await app.token("ada", "write")


async def post(app: App, token: str, path: str, **body: Any) -> Any:
    reply = await app.ask(token, "POST", path, body)
    assert reply.status == 200, reply
    return told(reply)


def test_the_paths_of_the_design_are_there_without_a_version() -> None:
    assert set(UNVERSIONED) == {"/index", "/search", "/summarize"}
    assert {row.path: row.tool.name for row in ENDPOINTS if row.path in UNVERSIONED} == {
        "/index": "push",
        "/search": "search",
        "/summarize": "summarize",
    }


def test_every_tool_has_a_path_of_its_name() -> None:
    assert {row.path for row in ENDPOINTS if row.path.startswith("/v1/tools/")} == {
        f"/v1/tools/{name}" for name in TOOLS
    }


async def test_the_designs_own_example_is_indexed_and_found(app: App, token: str) -> None:
    answered = await post(app, token, "/index", text="My sample document about Axum and Qdrant")
    assert {name: answered[name] for name in ("inserted", "updated", "skippedDuplicates", "chunksIndexed")} == {
        "inserted": 1,
        "updated": 0,
        "skippedDuplicates": 0,
        "chunksIndexed": 1,
    }
    found = await post(app, token, "/search", query_text="axum")
    assert found["hits"][0]["memory_id"] == answered["memory_ids"][0]


async def test_a_mirror_answers_what_the_tool_answers(app: App, token: str) -> None:
    first = await post(app, token, "/v1/tools/push", text="The walnut", tags="a")
    asked = {"query_text": "walnut", "type": "semantic"}
    assert await post(app, token, "/search", **asked) == await post(app, token, "/v1/tools/search", **asked)
    path = f"/v1/collections/items/{first['memory_ids'][0]}"
    shown = told(await app.ask(token, "GET", path))
    assert shown == await post(app, token, "/v1/tools/get", memory_id=first["memory_ids"][0])
    changed = await app.ask(token, "PATCH", path, {"text": "The almond", "tags": []})
    assert (changed.status, told(changed)) == (200, shown | told(changed))
    assert (told(changed)["text"], told(changed)["tags"]) == ("The almond", [])
    assert (await app.ask(token, "DELETE", path)).status == 200
    assert (await app.ask(token, "GET", path)).status == 404


async def test_collections_are_made_listed_and_counted(app: App, token: str) -> None:
    assert (await post(app, token, "/v1/collections", name="research"))["created"] is True
    await post(app, token, "/index", text="One", collection="research")
    listed = told(await app.ask(token, "GET", "/v1/collections"))["collections"]
    assert [(each["name"], each["items"]) for each in listed] == [("collection", 0), ("research", 1)]
    counted = told(await app.ask(token, "GET", "/v1/collections/metrics", query="collection=research"))
    assert [each["items"] for each in counted["collections"]] == [1]


async def test_readables_are_read_by_get_alone(app: App, token: str) -> None:
    await post(app, token, "/index", text="One", project_id="web shop", tags=["a"])
    for path, expected in (
        ("/v1/memory-types", ["episodic", "semantic", "procedural"]),
        ("/v1/projects", ["web shop"]),
        ("/v1/projects/web%20shop/tags", ["a"]),
    ):
        reply = await app.ask(token, "GET", path)
        assert (reply.status, told(reply)) == (200, expected)
        assert dict(reply.headers)["Cache-Control"] == "no-store"
        assert (await app.ask(token, "POST", path, {})).status == 405
        assert (await app.ask(token, "GET", path, query="x=1")).status == 400
        assert (await app.ask(None, "GET", path)).status == 401
    assert told(await app.ask(token, "GET", "/v1/health"))["status"] == "ok"
    assert told(await app.ask(token, "GET", "/v1/settings"))["memories"]
    assert (await app.ask(token, "GET", "/v1/projects/%ff/tags")).status == 404


A_WRONG_PARAMETER_IS_CASES = [
    ("/search", {"query_text": "x", "limit": 0}, 422, "/limit", {"limit": 5}),
    ("/search", {"query_text": "x", "k": 0}, 422, "/k", {"limit": 5}),
    ("/search", {"query_text": "x", "time_range": {"end": 1}}, 422, "/time_range/end", None),
    ("/search", {"query_text": "x", "tags": [1]}, 422, "/tags/0", {"tags": ["architecture"]}),
    ("/search", {"query_text": ""}, 422, "/query_text", {"query_text": "current architecture plan"}),
    ("/index", {}, 422, "/text", {"text": "We chose PostgreSQL for the new service."}),
    ("/index", {"text": "x", "collection": "nope"}, 404, "/collection", None),
    ("/v1/collections", {"name": "a b"}, 422, "/name", {"name": "research"}),
    ("/v1/collections", {"name": "x", "dimension": 7}, 422, "/dimension", {"dimension": 64}),
]


async def test_a_wrong_parameter_is_pointed_at_with_an_example(app: App, token: str) -> None:
    for path, body, status, pointer, example in A_WRONG_PARAMETER_IS_CASES:
        reply = await app.ask(token, "POST", path, body)
        assert reply.status == status
        problem = told(reply)
        assert problem["code"] == ("not_found" if status == 404 else "invalid_params")
        assert problem["errors"][0]["pointer"] == pointer
        if example is not None:
            assert problem["errors"][0]["example"] == example


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (IndexFailed("qdrant at 10.0.0.7 is away"), 503, "provider_unavailable", "provider_unavailable"),
        (StoreAway("postgres at 10.0.0.7 is away"), 503, "unavailable", "upsert_failed"),
        (StoreError("/srv/x cannot be written"), 500, "upsert_failed", "upsert_failed"),
    ],
)
async def test_a_failure_of_what_is_needed_has_its_status_and_code_and_names_no_host(
    app: App, token: str, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, kind: str, code: str
) -> None:
    await post(app, token, "/index", text="x")

    async def failing(*_: object, **__: object) -> Any:
        raise error

    monkeypatch.setattr(app.memories["collection"], "upsert", failing)
    reply = await app.ask(token, "POST", "/index", {"text": "y"})
    problem = told(reply)
    assert (reply.status, problem["type"].rpartition(":")[2], problem["code"]) == (status, kind, code)
    assert not any(said in json.dumps(problem) for said in ("10.0.0.7", "/srv"))
    assert ("Retry-After" in dict(reply.headers)) == (status == 503)


async def test_half_a_character_that_was_cut_is_mended_wherever_a_text_is_taken(app: App, token: str) -> None:
    half = b'{"text": "cut \\ud83d", "tags": ["\\udc00"], "source_uri": "a:\\ud800"}'
    kept = told(await app.ask(token, "POST", "/index", raw=half))["memory_ids"][0]
    item = told(await app.ask(token, "GET", f"/v1/collections/items/{kept}"))
    assert (item["text"], item["tags"], item["source_uri"]) == ("cut \ufffd", ["\ufffd"], "a:\ufffd")
    found = told(await app.ask(token, "POST", "/search", raw=b'{"query_text": "cut \\ud800", "tags": ["\\ud800"]}'))
    assert [hit["memory_id"] for hit in found["hits"]] == [kept]


def test_the_schema_of_a_problem_has_every_kind_and_code() -> None:
    assert SCHEMA["properties"]["code"]["enum"] == list(CODES)
    assert {"provider_unavailable", "upsert_failed"} <= set(TITLES)
