"""Tasks over `/v1` and MCP: who did it, what is refused, and how."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from runtime.database.connection import Database
from runtime.identity.caller import OWNER_CALLER, Caller
from runtime.mcp.backend import BackendFailure
from runtime.mcp.local_backend import LocalBackend
from runtime.tasks.store import TaskStore
from runtime.tasks.urgent import UrgentTasks, urgent_notice
from runtime.tools import TOOLS
from runtime.tools.context import ActingAgent, Context
from tests.clocks import ManualClock
from tests.databases import migrated
from tests.runtime.api.app import App, told

MISSING = "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """An app on SQLite only: differences of PostgreSQL are tested in the layers below."""
    return f"sqlite:///{migrated(tmp_path / 'symbiont.db')}"


@pytest.fixture
def app(database: Database, clock: ManualClock) -> App:
    return App(database, clock)


@pytest.fixture
async def token(app: App) -> str:
    return await app.token()


async def made(app: App, token: str, **given: Any) -> dict[str, Any]:
    reply = await app.ask(token, "POST", "/v1/tasks", {"title": "Call Ada", **given})
    assert reply.status == 201, reply
    task: dict[str, Any] = told(reply)
    assert dict(reply.headers)["Location"] == f"/v1/tasks/{task['task_id']}"
    return task


async def test_a_task_is_created_shown_changed_completed_and_deleted(app: App, token: str) -> None:
    task = await made(app, token, description="About it", due_date="2026-02-13T09:00:00+01:00", tags=["Work", "work "])
    assert (task["due_date"], task["overdue"], task["tags"]) == ("2026-02-13T08:00:00Z", True, ["work"])
    path = f"/v1/tasks/{task['task_id']}"
    changed = told(await app.ask(token, "PATCH", path, {"priority": "high", "clear": ["due_date", "description"]}))
    assert (changed["priority"], changed["due_date"], changed["description"]) == ("high", None, None)
    done = told(await app.ask(token, "POST", f"{path}/complete"))
    assert (done["status"], done["completed_at"]) == ("completed", "2026-02-14T10:30:00Z")
    shown = told(await app.ask(token, "GET", path))
    assert shown["version"] == 3
    assert [(entry["version"], entry["source"]) for entry in shown["history"]] == [(3, "api"), (2, "api"), (1, "api")]
    assert {"field": "due_date", "before": "2026-02-13T08:00:00Z", "after": None} in shown["history"][1]["changes"]
    listed = told(await app.ask(token, "GET", "/v1/tasks", query="status=completed&tags=work&tags=work"))
    assert ([each["task_id"] for each in listed["tasks"]], listed["total"]) == ([task["task_id"]], 1)
    assert (await app.ask(token, "DELETE", path)).status == 204
    assert (await app.ask(token, "GET", path)).status == 404


async def test_the_source_is_the_surface_of_the_call(app: App, token: str) -> None:
    async def source(context: Context) -> str:
        return str((await TOOLS["task_create"].call(context, {"title": "x"})).model_dump()["source"])

    assert (await made(app, token))["source"] == "api"
    assert await source(app.context(OWNER_CALLER)) == "user"
    over_mcp = await LocalBackend(app.open_context, OWNER_CALLER).call("task_create", {"title": "x"}, None)
    assert over_mcp.content["source"] == "agent"
    acting = replace(
        app.context(Caller("owner", frozenset({"write"}), via="agent")), acting=ActingAgent("a", "run", None)
    )
    task = (await TOOLS["task_create"].call(acting, {"title": "x"})).model_dump()
    assert (task["source"], task["created_by_agent"], task["origin_run_id"]) == ("agent", "a", "run")
    reply = await app.ask(token, "POST", "/v1/tasks", {"title": "x", "source": "user"})
    assert reply.status == 422


async def test_a_task_says_from_which_webhook_its_text_is(app: App, token: str) -> None:
    caller = Caller("owner", frozenset({"write"}), via="agent")
    acting = replace(app.context(caller), acting=ActingAgent("a", "run", None, webhook="hooks"))
    task = (await TOOLS["task_create"].call(acting, {"title": "Pay Mallory", "priority": "urgent"})).model_dump()
    assert task["webhook"] == "hooks"
    path = f"/v1/tasks/{task['task_id']}"
    assert told(await app.ask(token, "PATCH", path, {"status": "in_progress"}))["webhook"] == "hooks"
    said = urgent_notice(await UrgentTasks(app.database, app.clock).of("owner"), tokens=1000, count=len)
    assert f"- Pay Mallory (id {task['task_id']}; urgent; from a delivery of hooks)" in said.text

    own = await made(app, token)
    assert own["webhook"] is None
    for given, webhook in (({"status": "completed"}, None), ({"title": "Pay Eve"}, "hooks")):
        await TOOLS["task_update"].call(acting, {"task_id": own["task_id"], **given})
        assert told(await app.ask(token, "GET", f"/v1/tasks/{own['task_id']}"))["webhook"] == webhook


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"title": "x" * 501}, "/title"),
        ({"title": " \n\t\u2028"}, "/title"),
        ({"title": "\u200b\u0000\x1b"}, "/title"),
        ({"title": "x", "priority": "soon"}, "/priority"),
        ({"title": "x", "due_date": "tomorrow"}, "/due_date"),
        ({"title": "x", "tags": ["a\u0000"]}, "/tags/0"),
        ({"title": "x", "tags": [f"{number}" for number in range(21)]}, "/tags"),
        ({"title": "x", "description": "x" * 10_001}, "/description"),
    ],
)
async def test_a_wrong_parameter_is_named(app: App, token: str, given: dict[str, Any], pointer: str) -> None:
    reply = await app.ask(token, "POST", "/v1/tasks", given)
    assert reply.status == 422
    assert told(reply)["errors"][0]["pointer"] == pointer


async def test_a_change_that_says_nothing_or_two_things_is_refused(app: App, token: str) -> None:
    path = f"/v1/tasks/{(await made(app, token))['task_id']}"
    assert (await app.ask(token, "PATCH", path, {})).status == 422
    reply = await app.ask(token, "PATCH", path, {"due_date": "2026-12-01", "clear": ["due_date"]})
    assert told(reply)["errors"][0]["pointer"] == "/clear"
    assert (await app.ask(token, "PATCH", path, {"clear": ["title"]})).status == 422
    assert (await app.ask(token, "POST", "/v1/tasks/bulk", {"task_ids": [MISSING]})).status == 422


async def test_several_tasks_are_changed_or_each_reason_is_told(app: App, token: str) -> None:
    ids = [(await made(app, token))["task_id"] for _ in range(2)]
    results = [{"task_id": ids[0], "result": "ok"}, {"task_id": MISSING, "result": "there is no such task"}]
    given = {"task_ids": [ids[0], MISSING], "status": "completed"}
    reply = await app.ask(token, "POST", "/v1/tasks/bulk", given)
    assert (reply.status, told(reply)["results"]) == (422, results)
    with pytest.raises(BackendFailure) as failed:
        await LocalBackend(app.open_context, OWNER_CALLER).call("task_bulk_update", given, None)
    assert (failed.value.failure["code"], failed.value.failure["results"]) == ("invalid_params", results)
    assert "there is no such task" in failed.value.line().partition("Results:")[2]
    assert told(await app.ask(token, "GET", f"/v1/tasks/{ids[0]}"))["status"] == "pending"
    reply = await app.ask(token, "POST", "/v1/tasks/bulk", {"task_ids": ids, "status": "completed"})
    assert told(reply) == {"results": [{"task_id": task_id, "result": "ok"} for task_id in ids]}


@pytest.mark.parametrize("count", [0, 101])
async def test_several_tasks_are_1_to_100(app: App, token: str, count: int) -> None:
    ids = [f"{number:08d}{MISSING[8:]}" for number in range(count)]
    reply = await app.ask(token, "POST", "/v1/tasks/bulk", {"task_ids": ids, "status": "completed"})
    assert (reply.status, told(reply)["errors"][0]["pointer"]) == (422, "/task_ids")


async def test_an_id_that_is_given_twice_is_changed_once(app: App, token: str) -> None:
    task_id = (await made(app, token))["task_id"]
    reply = await app.ask(token, "POST", "/v1/tasks/bulk", {"task_ids": [task_id] * 101, "tags_add": ["a", "b"]})
    assert told(reply) == {"results": [{"task_id": task_id, "result": "ok"}]}
    again = {"task_ids": [task_id], "status": "cancelled", "tags_add": ["c"], "tags_remove": ["a", "c"]}
    assert (await app.ask(token, "POST", "/v1/tasks/bulk", again)).status == 200
    shown = told(await app.ask(token, "GET", f"/v1/tasks/{task_id}"))
    assert (shown["version"], shown["status"], shown["tags"]) == (3, "cancelled", ["b"])
    assert shown["history"][0]["changes"] == [
        {"field": "status", "before": "pending", "after": "cancelled"},
        {"field": "tags", "before": ["a", "b"], "after": ["b"]},
    ]


async def test_behind_the_end_a_list_is_empty_and_tells_the_total(app: App, token: str) -> None:
    await made(app, token, tags=["a"])
    for query in ("offset=1", "offset=1000000000&tags=a", "offset=5&status=pending"):
        assert told(await app.ask(token, "GET", "/v1/tasks", query=query)) == {"tasks": [], "total": 1}
    for query in ("limit=0", "limit=101", "offset=-1", "status=done"):
        assert (await app.ask(token, "GET", "/v1/tasks", query=query)).status == 422


async def test_the_longest_title_and_each_way_of_writing_a_tag_are_accepted(app: App, token: str) -> None:
    given = {"title": "\u00e9" * 500, "tags": ["CAFE\u0301", "caf\u00e9", " Caf\u00c9 "], "priority": None}
    task = await made(app, token, **given)
    assert (task["title"], task["tags"], task["priority"]) == (given["title"], ["caf\u00e9"], "normal")
    for tag in ("cafe\u0301", "CAF\u00c9"):
        assert told(await app.ask(token, "GET", "/v1/tasks", query=f"tags={quote(tag)}"))["total"] == 1


async def test_too_many_creations_are_refused_with_the_seconds(app: App, token: str) -> None:
    app.tasks = TaskStore(app.database, app.clock, per_hour=1)
    await made(app, token)
    reply = await app.ask(token, "POST", "/v1/tasks", {"title": "x"})
    problem = told(reply)
    assert (reply.status, dict(reply.headers)["Retry-After"]) == (429, "3600")
    assert (problem["type"], problem["code"]) == ("urn:symbiont:problem:rate_limited", "rate_limited")
    assert "1 hour" in problem["detail"]
    with pytest.raises(BackendFailure, match="1 hour") as failed:
        await LocalBackend(app.open_context, OWNER_CALLER).call("task_create", {"title": "x"}, None)
    assert failed.value.failure["code"] == "rate_limited"


async def test_no_scope_opens_the_tasks_of_another_user(app: App, token: str) -> None:
    task = await made(app, await app.token("ada"))
    admin = await app.token("owner", "admin")
    path = f"/v1/tasks/{task['task_id']}"
    for method, where, body in (
        ("GET", path, None),
        ("PATCH", path, {"title": "x"}),
        ("POST", f"{path}/complete", None),
        ("DELETE", path, None),
    ):
        assert (await app.ask(admin, method, where, body)).status == 404
    assert told(await app.ask(admin, "GET", "/v1/tasks"))["total"] == 0
    assert (await app.ask(await app.token("owner", "read"), "POST", "/v1/tasks", {"title": "x"})).status == 403


async def test_a_plain_date_is_due_at_its_end(app: App, token: str, clock: ManualClock) -> None:
    task = await made(app, token, due_date="2026-02-14")
    assert (task["due_date"], task["overdue"]) == ("2026-02-14", False)
    clock.advance(2 * 86_400)
    assert told(await app.ask(token, "GET", f"/v1/tasks/{task['task_id']}"))["overdue"] is True
