"""Approvals over HTTP: who sees them, who decides, and what is answered to whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runtime.api.rest.handler import ApiResponse
from runtime.database.connection import Database
from runtime.threads.approvals.approval import Approval, Question
from runtime.threads.approvals.asking import Asker
from runtime.threads.approvals.store import Approvals
from runtime.threads.inputs import Inputs
from runtime.threads.thread import Threads
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App, program_of, told

PROGRAM = """\
memory notes {}
model talker { service ollama { model "qwen3:4b" } }
agent reviewer { memory notes model talker }
"""


@pytest.fixture
async def app(tmp_path: Path, clock: ManualClock) -> AsyncIterator[App]:
    database = await Database.open(with_keys(tmp_path / "symbiont.db", KEY), KEY)
    app = App(database, clock)
    app.program = program_of(PROGRAM)
    yield app
    await database.close()


async def asked(app: App, user: str = "ada", *tools: str) -> list[Approval]:
    """Return what a run of a user asks."""
    user_id = await app.user(user)
    thread = await Threads(app.database, app.clock).conversation(user_id, "reviewer")
    inputs = Inputs(app.database, app.clock)
    run_id = await inputs.send(user_id, "reviewer", thread.id, "Merge it.", {"write"})
    [turn] = await inputs.claim(1)
    by = Asker(user_id, "reviewer", thread.id, run_id, turn.attempt)
    questions = [Question(f"{run_id}_{tool}", tool, '{"number":5}', "digest") for tool in tools or ("merge",)]
    stored = await Approvals(app.database, app.clock).ask(by, questions, 60)
    return [each for each in stored.values() if each is not None]


def is_problem(reply: ApiResponse, status: int, kind: str) -> str:
    assert reply.status == status, reply
    problem: dict[str, Any] = told(reply)
    assert problem["type"] == f"urn:symbiont:problem:{kind}"
    return str(problem["detail"])


async def test_a_call_is_listed_shown_and_decided_once(app: App) -> None:
    [waits] = await asked(app)
    reads, writes = await app.token("ada", "read"), await app.token("ada", "write")
    [listed] = told(await app.ask(reads, "GET", "/v1/approvals"))["approvals"]
    assert told(await app.ask(reads, "GET", f"/v1/approvals/{waits.id}")) == listed
    assert (listed["id"], listed["tool"], listed["arguments"]) == (waits.id, "merge", {"number": 5})
    assert (listed["state"], listed["decided_by"], listed["reason"]) == ("awaiting", None, None)
    path = f"/v1/approvals/{waits.id}"
    assert "scope write" in is_problem(await app.ask(reads, "POST", f"{path}/approve"), 403, "forbidden")
    app.queued.clear()
    done = told(await app.ask(writes, "POST", f"{path}/deny", {"reason": "Wait."}))
    assert (done["state"], done["decided_by"], done["reason"]) == ("denied", "ada", "Wait.")
    assert (done["user"], done["decided_via"]) == ("ada", "http")
    assert app.queued == [None]
    said = is_problem(await app.ask(writes, "POST", f"{path}/approve", {"always": True}), 409, "conflict")
    assert said.startswith("this call was denied already")
    assert told(await app.ask(reads, "GET", "/v1/approvals"))["approvals"] == []
    [kept] = told(await app.ask(reads, "GET", "/v1/approvals", query="decided=true"))["approvals"]
    assert kept == done


async def test_the_calls_of_another_user_exist_for_administrators_alone(app: App) -> None:
    [waits] = await asked(app)
    others, admin = await app.token("bob", "write"), await app.token("bob", "admin")
    path = f"/v1/approvals/{waits.id}"
    for method, place in (("GET", path), ("POST", f"{path}/approve"), ("POST", f"{path}/deny")):
        is_problem(await app.ask(others, method, place), 404, "not_found")
    assert told(await app.ask(others, "GET", "/v1/approvals"))["approvals"] == []
    is_problem(await app.ask(others, "GET", "/v1/approvals", query="user=ada"), 403, "forbidden")
    assert len(told(await app.ask(admin, "GET", "/v1/approvals", query="user=ada"))["approvals"]) == 1
    assert told(await app.ask(admin, "POST", f"{path}/approve"))["decided_by"] == "bob"


async def test_the_keys_of_the_user_whom_an_administrator_names_are_known(app: App, tmp_path: Path) -> None:
    made_by = await Database.open(tmp_path / "symbiont.db", KEY)
    made_by.keys.ensure(user_id := await app.user("ada"))
    await made_by.close()
    assert not app.database.keys.knows(user_id)
    assert (await app.ask(await app.token("bob", "admin"), "GET", "/v1/approvals", query="user=ada")).status == 200
    assert app.database.keys.knows(user_id)


async def test_a_tool_is_approved_for_good_and_that_is_revoked(app: App) -> None:
    [waits] = await asked(app)
    token, other = await app.token("ada", "write"), await app.token("bob", "write")
    await app.ask(token, "POST", f"/v1/approvals/{waits.id}/approve", {"always": True})
    [kept] = told(await app.ask(token, "GET", "/v1/approvals/standing"))["standing"]
    assert (kept["agent"], kept["tool"], kept["decided_by"]) == ("reviewer", "merge", "ada")
    assert kept["decided_via"] == "http"
    assert await asked(app) == []
    path = f"/v1/approvals/standing/{kept['id']}"
    is_problem(await app.ask(other, "DELETE", path), 404, "not_found")
    assert (await app.ask(token, "DELETE", path)).status == 204
    is_problem(await app.ask(token, "DELETE", path), 404, "not_found")
    assert len(await asked(app)) == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/approvals/0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60/approve", None, 404),
        ("/v1/approvals/not-an-id/approve", None, 404),
        ("/v1/approvals/{id}/approve", {"reason": "because"}, 422),
        ("/v1/approvals/{id}/approve", {"always": "yes"}, 422),
        ("/v1/approvals/{id}/deny", {"reason": ""}, 422),
        ("/v1/approvals/{id}/deny", {"reason": "x" * 4001}, 422),
        ("/v1/approvals/{id}/deny", {"reason": 5}, 422),
    ],
)
async def test_a_wrong_request_decides_nothing(app: App, path: str, body: Any, status: int) -> None:
    [waits] = await asked(app)
    token = await app.token("ada", "write")
    assert (await app.ask(token, "POST", path.format(id=waits.id), body)).status == status
    assert told(await app.ask(token, "GET", f"/v1/approvals/{waits.id}"))["state"] == "awaiting"


async def test_a_call_whose_agent_is_not_in_the_program_says_so_and_is_not_approved(app: App) -> None:
    [waits] = await asked(app)
    token, path = await app.token("ada", "write"), f"/v1/approvals/{waits.id}"
    app.program = program_of("memory notes {}")
    [listed] = told(await app.ask(token, "GET", "/v1/approvals"))["approvals"]
    assert (listed["state"], listed["cannot_run"]) == ("awaiting", "the agent reviewer is not in the program")
    said = is_problem(await app.ask(token, "POST", f"{path}/approve", {"always": True}), 409, "conflict")
    assert said.startswith("the agent reviewer is not in the program, so this call cannot run")
    assert told(await app.ask(token, "GET", "/v1/approvals/standing"))["standing"] == []
    assert told(await app.ask(token, "POST", f"{path}/deny"))["state"] == "denied"


async def test_a_daemon_without_agents_leaves_calls_to_those_that_share_its_database(
    postgres_url: str, clock: ManualClock
) -> None:
    database = await Database.open(postgres_url, KEY)
    app = App(database, clock)
    [waits] = await asked(app)
    app.declared = ()
    token = await app.token("ada", "write")
    assert told(await app.ask(token, "GET", f"/v1/approvals/{waits.id}"))["cannot_run"] is None
    assert told(await app.ask(token, "POST", f"/v1/approvals/{waits.id}/approve"))["state"] == "approved"
    await database.close()


async def test_after_the_deadline_a_call_is_shown_as_expired(app: App, clock: ManualClock) -> None:
    [waits] = await asked(app)
    token = await app.token("ada", "write")
    clock.advance(60)
    assert told(await app.ask(token, "GET", f"/v1/approvals/{waits.id}"))["state"] == "expired"
    assert told(await app.ask(token, "GET", "/v1/approvals"))["approvals"] == []
    said = is_problem(await app.ask(token, "POST", f"/v1/approvals/{waits.id}/approve"), 409, "conflict")
    assert "nobody decided about this call until" in said
