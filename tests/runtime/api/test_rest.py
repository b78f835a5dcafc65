"""`/v1`: permissions, and the errors for what is not permitted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from runtime.api.rest.endpoints import ENDPOINTS
from runtime.api.rest.handler import BODIES_OF_ONE, ApiRequest, ApiResponse
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.identity.tokens import make_token
from runtime.tools.tool import LARGEST_CALL
from runtime.webhooks.deliveries.delivery import RejectedRequest
from runtime.webhooks.routing.dynamic_webhooks import PER_USER
from tests.cases import each_case
from tests.clocks import ManualClock, until
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App, told

SHARED = pytest.mark.asyncio(loop_scope="module")
MISSING = "5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a11"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """An app on SQLite only: differences of PostgreSQL are tested in the layers below."""
    return f"sqlite:///{with_keys(tmp_path / 'symbiont.db', KEY)}"


@pytest.fixture
def app(database: Database, clock: ManualClock) -> App:
    """An app on each database."""
    return App(database, clock)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def any_app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """An app whose calls are refused, or change nothing that others look at."""
    database = await Database.open(with_keys(tmp_path_factory.mktemp("any") / "symbiont.db", KEY), KEY)
    yield App(database, ManualClock())
    await database.close()


def is_problem(reply: ApiResponse, status: int, kind: str) -> dict[str, Any]:
    assert reply.status == status, reply
    assert reply.content_type == "application/problem+json"
    problem: dict[str, Any] = told(reply)
    assert problem["type"] == f"urn:symbiont:problem:{kind}"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    return problem


async def test_a_webhook_is_made_shown_changed_and_deleted(app: App) -> None:
    token = await app.token()
    made = await app.webhook(token)
    webhook_id = made["webhook_id"]
    path = f"/v1/webhooks/{webhook_id}"
    assert UUID(webhook_id).version == 4
    assert made["url"] == f"https://hooks.example.com/webhooks/{webhook_id}"
    assert made["secret"].startswith("whsec_")
    assert len(made["secret"]) == 6 + 43
    shown = told(await app.ask(token, "GET", path))
    assert shown == {key: value for key, value in made.items() if key not in {"secret", "notes"}}
    assert made["notes"] == []
    assert told(await app.ask(token, "GET", "/v1/webhooks")) == {"webhooks": [shown], "next_cursor": None}
    changed = told(await app.ask(token, "PATCH", path, {"title": "Évening build", "is_active": False}))
    assert (changed["title"], changed["is_active"]) == ("Évening build", False)
    assert told(await app.ask(token, "PATCH", path, {"is_active": True}))["title"] == "Évening build"
    deleted = await app.ask(token, "DELETE", path)
    assert (deleted.status, deleted.body) == (204, b"")
    is_problem(await app.ask(token, "GET", path), 404, "not_found")
    is_problem(await app.ask(token, "DELETE", path), 404, "not_found")


async def test_what_was_made_is_located(app: App) -> None:
    reply = await app.ask(await app.token(), "POST", "/v1/webhooks", {"title": "x", "agent": "reviewer"})
    assert ("Location", f"/v1/webhooks/{told(reply)['webhook_id']}") in reply.headers


@SHARED
async def test_a_body_is_read_also_where_there_is_nothing_to_say(any_app: App, tmp_path: Path) -> None:
    token = await any_app.token("owner", "admin")
    path = "/v1/tools/get-collections"
    async with any_app.remembering(tmp_path):
        assert (await any_app.ask(token, "POST", path)).status == 200
        assert (await any_app.ask(token, "POST", path, {})).status == 200
    refused = is_problem(await any_app.ask(token, "POST", path, {"limit": 5}), 422, "wrong_parameters")
    assert refused["errors"] == [{"pointer": "/limit", "detail": "there are no parameters", "example": {}}]
    is_problem(await any_app.ask(token, "POST", path, {"limit": None}), 422, "wrong_parameters")
    is_problem(await any_app.ask(token, "POST", path, [1]), 400, "malformed")
    is_problem(await any_app.ask(token, "POST", path, raw=b"{"), 400, "malformed")
    is_problem(
        await any_app.ask(token, "POST", path, raw=b"{}", content_type="text/plain"), 415, "unsupported_media_type"
    )


@SHARED
async def test_no_endpoint_takes_a_field_that_it_does_not_have(any_app: App) -> None:
    token = await any_app.token("owner", "admin")
    for row in ENDPOINTS:
        if row.method != "GET":
            values = {name: quote((row.tool.example or {}).get(name, MISSING), safe="") for name in row.in_path}
            reply = await any_app.ask(token, row.method, row.path.format_map(values), {"nonsense": 1})
            assert reply.status in {400, 422}, (row.path, reply)


@SHARED
async def test_parameters_of_a_deletion_in_its_body_are_refused_not_ignored(any_app: App) -> None:
    token = await any_app.token("owner", "admin")
    refused = await any_app.ask(token, "DELETE", "/v1/memory", {"dry_run": True})
    assert "query" in is_problem(refused, 400, "malformed")["detail"]
    is_problem(await any_app.ask(token, "DELETE", f"/v1/webhooks/{MISSING}", {"x": 1}), 422, "wrong_parameters")
    is_problem(await any_app.ask(token, "DELETE", f"/v1/webhooks/{MISSING}", {}), 404, "not_found")


async def test_nothing_is_served_without_a_good_token(app: App, clock: ManualClock) -> None:
    answers = set()
    expired = await app.tokens.create("owner", label="", scopes=["admin"], lifetime_ms=1000)
    revoked = await app.tokens.create("owner", label="", scopes=["admin"])
    assert expired is not None
    assert revoked is not None
    await app.tokens.revoke(revoked.token_id)
    clock.advance(1)
    for number, token in enumerate((make_token(), "nonsense", expired.token, revoked.token)):
        for path in ("/v1/webhooks", "/v1/webhooks/x", "/v1/openapi.json", "/v1", "/v1/nothing"):
            reply = await app.ask(token, "GET", path, source=f"192.0.2.{number}")
            is_problem(reply, 401, "unauthorized")
            answers.add(reply)
    # Unknown, revoked and expired look the same from outside.
    assert len(answers) == 1
    (answer,) = answers
    assert ("WWW-Authenticate", 'Bearer realm="symbiont", error="invalid_token"') in answer.headers


async def test_a_request_without_a_token_is_challenged(app: App) -> None:
    reply = await app.ask(None, "GET", "/v1/webhooks")
    is_problem(reply, 401, "unauthorized")
    assert ("WWW-Authenticate", 'Bearer realm="symbiont"') in reply.headers


A_TOKEN_THAT_IS_CASES = [
    ["Bearer {token}", "Bearer {token}"],
    ["Basic {token}"],
    ["{token}"],
    ["Bearer {token},"],
    ["Bearer {token} {token}"],
    ["Bearer"],
    ["Bearer \t{token}"],
    [""],
]


@SHARED
async def test_a_token_that_is_not_sent_as_it_should_be_is_none(any_app: App) -> None:
    token = await any_app.token()
    for lines in A_TOKEN_THAT_IS_CASES:
        sent = [line.format(token=token) for line in lines]
        is_problem(await any_app.ask(None, "GET", "/v1/webhooks", authorization=sent), 401, "unauthorized")
        good = await any_app.ask(None, "GET", "/v1/webhooks", authorization=[f"bearer {token}"])
        assert good.status == 200


async def test_reading_needs_read_and_changing_needs_write(app: App) -> None:
    reader, writer, admin = [await app.token("ada", scope) for scope in ("read", "write", "admin")]
    path = f"/v1/webhooks/{(await app.webhook(writer))['webhook_id']}"
    for method, where, body in (
        ("POST", "/v1/webhooks", {"title": "x", "agent": "reviewer"}),
        ("PATCH", path, {"title": "x"}),
        ("POST", f"{path}/rotate", None),
        ("DELETE", path, None),
    ):
        reply = await app.ask(reader, method, where, body)
        is_problem(reply, 403, "forbidden")
        challenge = dict(reply.headers)["WWW-Authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="write"' in challenge
    for where in ("/v1/webhooks", path, f"{path}/audit", "/v1/openapi.json"):
        for token in (reader, writer, admin):
            assert (await app.ask(token, "GET", where)).status == 200
    assert (await app.ask(admin, "DELETE", path)).status == 204


async def test_an_admin_switches_rotates_and_deletes_anybodys_webhook_and_the_log_says_who(app: App) -> None:
    ada, admin = await app.token("ada", "write"), await app.token("root", "admin")
    with capture_logs() as logged:
        made = await app.webhook(ada)
    said = [(line["change"], line["user_id"]) for line in logged if line["event"] == "webhook_changed"]
    assert said == [("created", made["user_id"])]
    path = f"/v1/webhooks/{made['webhook_id']}"
    assert made["user_id"] == await app.user("ada")
    listed = told(await app.ask(admin, "GET", "/v1/webhooks"))["webhooks"]
    assert [(row["webhook_id"], row["user_id"]) for row in listed] == [(made["webhook_id"], made["user_id"])]
    assert told(await app.ask(admin, "GET", path))["title"] == made["title"]
    with capture_logs() as logged:
        assert told(await app.ask(admin, "PATCH", path, {"is_active": False}))["is_active"] is False
        rotated = told(await app.ask(admin, "POST", f"{path}/rotate", {"overlap": "0s"}))
        assert rotated["secret"] != made["secret"]
        assert (await app.ask(admin, "GET", f"{path}/audit")).status == 200
        assert (await app.ask(admin, "DELETE", path)).status == 204
    said = [(line["change"], line["user_id"]) for line in logged if line["event"] == "webhook_changed"]
    root = await app.user("root")
    assert said == [("switched off", root), ("rotated", root), ("deleted", root)]
    assert (await app.ask(ada, "GET", path)).status == 404


async def test_the_list_goes_on_where_it_stopped(app: App, clock: ManualClock) -> None:
    ada, bob = await app.token("ada"), await app.token("bob")
    titles = []
    for number in range(7):
        titles.append((await app.webhook(ada, f"ada {number}"))["title"])
        await app.webhook(bob, f"bob {number}")
        clock.advance(number % 2)  # some in the same millisecond
    seen: list[str] = []
    query = "limit=2"
    for _ in range(4):
        page = told(await app.ask(ada, "GET", "/v1/webhooks", query=query))
        seen += [webhook["title"] for webhook in page["webhooks"]]
        query = f"limit=2&cursor={page['next_cursor']}"
    assert sorted(seen) == sorted(titles)
    assert page["next_cursor"] is None


async def test_the_audit_goes_on_where_it_stopped_and_is_of_this_webhook_alone(app: App, clock: ManualClock) -> None:
    token, ada = await app.token("ada"), await app.user("ada")
    webhook_id, other = [(await app.webhook(token))["webhook_id"] for _ in range(2)]
    assert app.daemon.audit is not None
    for number in range(7):
        for webhook, user in ((webhook_id, ada), (other, ada), (webhook_id, "owner")):
            app.daemon.audit.put(
                RejectedRequest(
                    verdict="filtered",
                    reason="filtered",
                    status=200,
                    size=number if user == ada and webhook == webhook_id else 1000,
                    webhook=webhook,
                    user_id=user,
                )
            )
        clock.advance(1)
    sizes: list[int] = []
    query = "limit=3"
    for _ in range(3):
        page = told(await app.ask(token, "GET", f"/v1/webhooks/{webhook_id}/audit", query=query))
        sizes += [entry["payload_size_bytes"] for entry in page["entries"]]
        query = f"limit=3&cursor={page['next_cursor']}"
    assert sizes == [6, 5, 4, 3, 2, 1, 0]
    assert page["next_cursor"] is None


A_WRONG_QUERY_IS_CASES = [
    ("limit=0", 422, "wrong_parameters"),
    ("limit=201", 422, "wrong_parameters"),
    ("limit=ten", 422, "wrong_parameters"),
    ("limit=1.0", 422, "wrong_parameters"),
    ("limit=%D9%A3", 422, "wrong_parameters"),
    ("limit=", 422, "wrong_parameters"),
    ("limit=2&limit=3", 400, "malformed"),
    ("lmit=2", 422, "wrong_parameters"),
    ("cursor=nonsense", 422, "wrong_parameters"),
    ("cursor=", 422, "wrong_parameters"),
    ("cursor=WzEsMl0", 422, "wrong_parameters"),  # [1,2]
    ("cursor=WzFlOTksIngiXQ", 422, "wrong_parameters"),  # [1e99,"x"]
    ("cursor=Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTksIngiXQ", 422, "wrong_parameters"),  # larger than a column
    ("cursor=WzEsIlx1MDAwMCJd", 422, "wrong_parameters"),  # [1,"\u0000"]
    ("cursor=%FF", 400, "malformed"),
    ("limit", 400, "malformed"),
    ("&", 400, "malformed"),
]


@SHARED
async def test_a_wrong_query_is_refused(any_app: App) -> None:
    token = await any_app.token()
    for query, status, kind in A_WRONG_QUERY_IS_CASES:
        is_problem(await any_app.ask(token, "GET", "/v1/webhooks", query=query), status, kind)


A_WRONG_BODY_IS_CASES = [
    (b"{", 400, "malformed"),
    (b"nope", 400, "malformed"),
    (b"[]", 400, "malformed"),
    (b'"x"', 400, "malformed"),
    (b"null", 400, "malformed"),
    (b"\xff\xfe", 400, "malformed"),
    (b"\xef\xbb\xbf{}", 422, "wrong_parameters"),
    (b"[" * 60_000, 400, "malformed"),
    (b'{"title":"x","agent":"reviewer","title":"y"}', 400, "malformed"),
    (b'{"title":"x","agent":NaN}', 400, "malformed"),
    (b'{"title":"x","agent":' + b"9" * 5000 + b"}", 422, "wrong_parameters"),
    (b"", 422, "wrong_parameters"),
    (b"{}", 422, "wrong_parameters"),
    (b'{"title":"x"}', 422, "wrong_parameters"),
    (b'{"title":"x","agent":1}', 422, "wrong_parameters"),
    (b'{"title":null,"agent":"reviewer"}', 422, "wrong_parameters"),
    (b'{"title":"","agent":"reviewer"}', 422, "wrong_parameters"),
    (b'{"title":" x","agent":"reviewer"}', 422, "wrong_parameters"),
    (b'{"title":"a\\nb","agent":"reviewer"}', 422, "wrong_parameters"),
    (b'{"title":"a\\u0000b","agent":"reviewer"}', 422, "wrong_parameters"),
    (b'{"title":"a\\u202eb","agent":"reviewer"}', 422, "wrong_parameters"),
    (b'{"title":"' + b"x" * 201 + b'","agent":"reviewer"}', 422, "wrong_parameters"),
    (b'{"title":"x","agent":"nobody"}', 422, "wrong_parameters"),
    (b'{"title":"x","agent":"reviewer","secret":"mine"}', 422, "wrong_parameters"),
    (b'{"title":"x","agent":"reviewer","insecure_allow_unverified":"true"}', 422, "wrong_parameters"),
    (b'{"title":"x","agent":"reviewer","insecure_allow_unverified":1}', 422, "wrong_parameters"),
    (b'{"title":"x","agent":"reviewer","context":{}}', 422, "wrong_parameters"),
]


@SHARED
async def test_a_wrong_body_is_refused_and_makes_nothing(any_app: App) -> None:
    token = await any_app.token("dan")
    for raw, status, kind in A_WRONG_BODY_IS_CASES:
        is_problem(await any_app.ask(token, "POST", "/v1/webhooks", raw=raw), status, kind)
        assert told(await any_app.ask(token, "GET", "/v1/webhooks"))["webhooks"] == []


A_BODY_THAT_IS_CASES = [None, "", "text/plain", "application/x-www-form-urlencoded"]


@SHARED
async def test_a_body_that_is_not_called_json_is_refused(any_app: App) -> None:
    for content_type in A_BODY_THAT_IS_CASES:
        reply = await any_app.ask(
            await any_app.token(),
            "POST",
            "/v1/webhooks",
            {"title": "x", "agent": "reviewer"},
            content_type=content_type,
        )
        is_problem(reply, 415, "unsupported_media_type")


@SHARED
async def test_each_wrong_parameter_is_pointed_at(any_app: App) -> None:
    body = {"title": 1, "a/b~c": 2}
    problem = is_problem(
        await any_app.ask(await any_app.token(), "POST", "/v1/webhooks", body), 422, "wrong_parameters"
    )
    assert {error["pointer"] for error in problem["errors"]} == {"/title", "/agent", "/a~1b~0c"}


@SHARED
async def test_an_unknown_agent_is_answered_with_the_nearest(any_app: App) -> None:
    reply = await any_app.ask(await any_app.token(), "POST", "/v1/webhooks", {"title": "x", "agent": "reviewr"})
    problem = is_problem(reply, 422, "wrong_parameters")
    assert problem["detail"] == "no agent is called 'reviewr'"
    assert problem["hint"] == "did you mean reviewer?"


ANOTHER_METHOD_IS_TOLD_CASES = [
    ("PUT", "/v1/webhooks", "GET, HEAD, POST"),
    ("OPTIONS", "/v1/webhooks", "GET, HEAD, POST"),
    ("POST", f"/v1/webhooks/{MISSING}", "DELETE, GET, HEAD, PATCH"),
    ("GET", f"/v1/webhooks/{MISSING}/rotate", "POST"),
    ("DELETE", f"/v1/webhooks/{MISSING}/audit", "GET, HEAD"),
    ("POST", "/v1/openapi.json", "GET, HEAD"),
]


@SHARED
async def test_another_method_is_told_which_there_are(any_app: App) -> None:
    token = await any_app.token()
    for method, path, allow in ANOTHER_METHOD_IS_TOLD_CASES:
        reply = await any_app.ask(token, method, path)
        is_problem(reply, 405, "method_not_allowed")
        assert dict(reply.headers)["Allow"] == allow


A_PATH_IS_SERVED_CASES = [
    "/v1",
    "/v1/",
    "/v1/nothing",
    "/v1/webhooks/",
    "/v1//webhooks",
    "/v1/webhooks/../webhooks",
    "/v1/%77ebhooks",
    "/v1/webhooks/1",
    "/v1/webhooks/" + "0" * 36,
    "/v1/webhooks/00000000-0000-0000-0000-00000000000A",
    "/v1/webhooks/00000000-0000-0000-0000-000000000000\n",
    "/v1/webhooks/00000000-0000-0000-0000-000000000000/",
    "/v1/webhooks/00000000-0000-0000-0000-000000000000/audit/x",
    "/v1/webhooks.list",
]


@SHARED
async def test_a_path_is_served_only_as_it_is_written(any_app: App) -> None:
    token = await any_app.token()
    for path in A_PATH_IS_SERVED_CASES:
        is_problem(await any_app.ask(token, "GET", path), 404, "not_found")


async def test_a_user_has_a_hundred_webhooks_at_most(app: App) -> None:
    ada, bob = await app.token("ada"), await app.token("bob")
    for number in range(PER_USER):
        await app.webhook(ada, f"number {number}")
    reply = await app.ask(ada, "POST", "/v1/webhooks", {"title": "x", "agent": "reviewer"})
    is_problem(reply, 409, "conflict")
    await app.webhook(bob)


async def test_nothing_to_change_is_said(app: App) -> None:
    token = await app.token()
    path = f"/v1/webhooks/{(await app.webhook(token))['webhook_id']}"
    bodies: list[Any] = [{}, None, {"title": None}]
    for body in bodies:
        is_problem(await app.ask(token, "PATCH", path, body), 422, "wrong_parameters")
    for body in ({"agent": "planner"}, {"webhook_id": str(uuid4())}, {"is_active": "no"}, {"is_active": 0}):
        assert (await app.ask(token, "PATCH", path, body)).status in {400, 422}


@SHARED
@each_case("overlap", ["31d", "1year", "-1h", "24", "", "soon", "1h 2h", 24, "²h", "9" * 30 + "d"])
async def test_an_overlap_that_cannot_be_is_refused(any_app: App, overlap: object) -> None:
    token = await any_app.token()
    path = f"/v1/webhooks/{(await any_app.webhook(token))['webhook_id']}/rotate"
    is_problem(await any_app.ask(token, "POST", path, {"overlap": overlap}), 422, "wrong_parameters")


async def test_a_webhook_without_a_secret_has_none_to_rotate(app: App) -> None:
    token = await app.token()
    made = await app.webhook(token, insecure_allow_unverified=True)
    assert made["secret"] is None
    assert made["insecure_allow_unverified"] is True
    path = f"/v1/webhooks/{made['webhook_id']}/rotate"
    is_problem(await app.ask(token, "POST", path), 409, "conflict")


@pytest.mark.parametrize("bad", ["unknown", "malformed"])
async def test_no_number_of_bad_tokens_keeps_a_good_one_out_and_the_log_stays_short(
    app: App, clock: ManualClock, bad: str
) -> None:
    late = await app.token()  # not used before
    wrong = make_token() if bad == "unknown" else f"{make_token()[:-1]}_"
    with capture_logs() as logged:
        statuses = [(await app.ask(wrong, "GET", "/v1/webhooks")).status for _ in range(100)]
        assert set(statuses) == {401}
        assert (await app.ask(late, "GET", "/v1/webhooks")).status == 200
    # One line each for the first few, one for all others; none contains the token.
    assert len(logged) == 21
    assert all(line["reason"] == bad for line in logged[:20])
    assert "symbi_" not in str(logged)
    clock.advance(60)
    with capture_logs() as logged:
        await app.ask(wrong, "GET", "/v1/webhooks")
    assert [line.get("count") for line in logged] == [80, None]


async def test_a_revoked_token_is_refused_though_it_was_good_a_moment_ago(app: App) -> None:
    made = await app.tokens.create("owner", label="", scopes=["read"])
    assert made is not None
    assert (await app.ask(made.token, "GET", "/v1/webhooks")).status == 200
    await app.tokens.revoke(made.token_id)
    is_problem(await app.ask(made.token, "GET", "/v1/webhooks"), 401, "unauthorized")


@SHARED
async def test_nobody_keeps_an_answer(any_app: App) -> None:
    token = await any_app.token()
    for reply in (
        await any_app.ask(token, "GET", "/v1/webhooks"),
        await any_app.ask(token, "POST", "/v1/webhooks", {"title": "x", "agent": "reviewer"}),
        await any_app.ask(None, "GET", "/v1/webhooks"),
        await any_app.ask(token, "GET", "/v1/nothing"),
    ):
        assert ("Cache-Control", "no-store") in reply.headers


@SHARED
async def test_a_failure_inside_says_nothing_of_itself(any_app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the secret is whsec_123")

    token = await any_app.token()
    monkeypatch.setattr(any_app.dynamic_webhooks, "page", broken)
    reply = await any_app.ask(token, "GET", "/v1/webhooks")
    is_problem(reply, 500, "internal")
    assert b"whsec" not in reply.body


@SHARED
async def test_a_database_that_is_away_is_503(any_app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> None:
        raise Unavailable("postgresql://somewhere does not answer")

    token = await any_app.token()
    monkeypatch.setattr(any_app.dynamic_webhooks, "page", away)
    reply = await any_app.ask(token, "GET", "/v1/webhooks")
    is_problem(reply, 503, "unavailable")
    assert b"somewhere" not in reply.body
    assert dict(reply.headers)["Retry-After"] == "5"


async def test_a_secret_is_answered_once_and_stored_sealed(app: App) -> None:
    token = await app.token()
    made = await app.webhook(token)
    path = f"/v1/webhooks/{made['webhook_id']}"
    rotated = told(await app.ask(token, "POST", f"{path}/rotate"))
    assert rotated["secret"] != made["secret"]
    for where in (path, "/v1/webhooks", f"{path}/audit"):
        assert b"whsec_" not in (await app.ask(token, "GET", where)).body
    async with app.database.read() as connection:
        rows = (await connection.exec_driver_sql("SELECT * FROM webhooks")).all()
    stored = str(rows)
    assert made["secret"][6:] not in stored
    assert rotated["secret"][6:] not in stored


def test_the_bound_of_a_body_is_far_above_what_is_needed() -> None:
    assert 20 * len(json.dumps({"title": "x" * 200, "agent": "x" * 64})) < LARGEST_CALL


async def test_one_token_sends_a_limited_number_of_bodies_at_the_same_time(app: App) -> None:
    token = await app.token("ada", "read")
    arrived = asyncio.Event()

    async def slow(_largest: int) -> bytes:
        await arrived.wait()
        return b"{}"

    def call(of: str) -> ApiRequest:
        return ApiRequest("POST", "/v1/tools/webhook_list", "", (f"Bearer {of}",), "application/json", None, "a", slow)

    waiting = [asyncio.create_task(app.rest.answer(call(token))) for _ in range(BODIES_OF_ONE)]
    await until(lambda: app.rest._bodies.total() == BODIES_OF_ONE)
    refused = await app.rest.answer(call(token))
    other = asyncio.create_task(app.rest.answer(call(await app.token("bob", "read"))))
    await until(lambda: app.rest._bodies.total() == BODIES_OF_ONE + 1)
    arrived.set()
    assert json.loads(refused.body)["type"].endswith(":too_many_bodies")
    assert {answer.status for answer in await asyncio.gather(other, *waiting)} == {200}
    assert not app.rest._bodies
