"""Webhooks made while the daemon runs: over real HTTP, on both databases, and through restarts."""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.runtime.daemon.running import GITHUB, Daemon, running, until, write_program
from tests.runtime.daemon.v1 import Made, ask, make_token, make_webhook


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon for tests that leave nothing behind that another test would see."""
    root = tmp_path_factory.mktemp("daemon")
    write_program(root)
    with running(root, "program") as started:
        yield started


def audit(daemon: Daemon, token: str, made: Made) -> list[dict[str, Any]]:
    entries = ask(daemon, token, "GET", f"/v1/webhooks/{made.id}/audit?limit=200").json()["entries"]
    assert isinstance(entries, list)
    return entries


def test_one_without_an_agent_just_keeps_what_it_accepts(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "write")
    left_out = ask(daemon, token, "POST", "/v1/webhooks", {"title": "x"})
    assert (left_out.status, [each["pointer"] for each in left_out.json()["errors"]]) == (422, ["/agent"])
    made = make_webhook(daemon, token, agent=None)
    assert ask(daemon, token, "GET", f"/v1/webhooks/{made.id}").json()["agent"] is None
    assert made.post().status == 202
    (entry,) = audit(daemon, token, made)
    assert (entry["verdict"], entry["run_id"]) == ("accepted", None)
    [row] = json.loads(daemon.symbi("webhook", "deliveries", "--name", made.id, "--json").stdout)["deliveries"]
    assert (row["agent"], row["state"]) == (None, "kept")
    for wrong in ((), ("--agent", "reviewer", "--keep-only")):
        refused = daemon.symbi("webhook", "create", "Nightly build", *wrong)
        assert (refused.returncode, "--agent NAME or --keep-only" in refused.stderr) == (2, True)
    assert json.loads(daemon.symbi("webhook", "create", "x", "--keep-only", "--json").stdout)["agent"] is None


def test_made_posted_to_run_and_audited_on_either_database_and_all_of_it_is_its_users(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program", wait=True, **environ) as daemon:
        ada = json.loads(daemon.symbi("user", "add", "ada", "--json", **environ).stdout)["id"]
        token = make_token(daemon, "--user", "ada", "--scope", "write", **environ)
        made = make_webhook(daemon, token)
        answer = made.post(b'{"number":"first"}')
        assert answer.status == 202
        delivery_id = answer.json()["delivery_id"]
        until(lambda: audit(daemon, token, made)[0]["run_state"] == "done", what="the run")
        (entry,) = audit(daemon, token, made)
        assert entry["delivery_id"] == delivery_id
        assert (entry["verdict"], entry["http_status"], entry["signature_valid"]) == ("accepted", 202, True)
        assert (entry["rejection_reason"], entry["secret"], entry["payload_size_bytes"]) == (None, "newest", 18)
        daemon.kill()
    with running(tmp_path, "program", wait=True, **environ) as daemon:
        made.daemon = daemon
        assert made.post(b'{"number":"second"}').status == 202
        assert ask(daemon, token, "GET", f"/v1/webhooks/{made.id}").json()["title"] == "Nightly build"
        until(lambda: len([e for e in audit(daemon, token, made) if e["run_state"] == "done"]) == 2, what="the runs")
        assert made.post(secret="whsec_wrong").status == 401
        until(lambda: len(audit(daemon, token, made)) == 3, what="the audit of the refusal")
    remembered = "".join(file.read_text() for file in (tmp_path / "data/agents/reviewer/logs").glob("*.md"))
    assert "- number: first\n" in remembered
    assert "- number: second\n" in remembered
    if not environ:
        with closing(sqlite3.connect(tmp_path / ".symbi/symbiont.db")) as database:
            for table in ("webhooks", "deliveries", "bodies", "replay_keys", "attempts", "runs", "rates"):
                assert database.execute(f"SELECT DISTINCT user_id FROM {table}").fetchall() == [(ada,)], table


def test_every_answer_of_the_receiver(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "write")
    made = make_webhook(daemon, token)
    body = b'{"a":1}'
    signed = made.headers(body)
    twice = [pair for pair in signed if "signature" in pair[0].lower()]
    cases = {
        "accepted": (daemon.request("POST", made.path, body, signed), 202),
        "replayed": (daemon.request("POST", made.path, body, signed), 401),
        "not JSON": (made.post(b"nope"), 400),
        "nothing": (made.post(b""), 400),
        "no signature": (daemon.request("POST", made.path, body), 401),
        "another secret": (made.post(body, secret="whsec_other"), 401),
        "tampered": (daemon.request("POST", made.path, b'{"a":2}', signed), 401),
        "stale": (made.post(body, late=301), 401),
        "future": (made.post(body, late=-400), 401),
        "sent twice": (daemon.request("POST", made.path, body, [*signed, *twice]), 401),
        "unknown": (daemon.request("POST", f"/webhooks/{uuid4()}", body, signed), 404),
        "upper case": (daemon.request("POST", f"/webhooks/{made.id.upper()}", body, signed), 404),
        "a slash more": (daemon.request("POST", f"{made.path}/", body, signed), 404),
        "another method": (daemon.request("GET", made.path), 405),
        "too large": (made.post(b'{"a":"' + b"x" * 262_144 + b'"}'), 413),
        "the largest": (made.post(b'{"a":"' + b"x" * (262_144 - 8) + b'"}'), 202),
    }
    assert {name: answer.status for name, (answer, _) in cases.items()} == {
        name: status for name, (_, status) in cases.items()
    }
    reasons = {entry["rejection_reason"] for entry in audit(daemon, token, made)}
    assert reasons >= {None, "replayed", "invalid_json", "missing_signature", "signature_mismatch", "stale", "future"}
    for entry in audit(daemon, token, made):
        if entry["rejection_reason"] in {"missing_signature", "signature_mismatch"}:
            assert entry["signature_valid"] is False


def test_one_that_is_switched_off_or_deleted_is_answered_as_one_that_never_was(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "write")
    made = make_webhook(daemon, token)
    never = daemon.request("POST", f"/webhooks/{uuid4()}", b"{}", made.headers(b"{}"))
    where = f"/v1/webhooks/{made.id}"
    assert ask(daemon, token, "PATCH", where, {"is_active": False}).json()["is_active"] is False
    off = made.post()
    assert ask(daemon, token, "PATCH", where, {"is_active": True}).status == 200
    assert made.post().status == 202
    assert ask(daemon, token, "DELETE", where).status == 204
    gone = made.post()
    assert (off.status, off.body) == (gone.status, gone.body) == (never.status, never.body)
    assert never.status == 404


def test_one_user_neither_sees_nor_changes_anothers(daemon: Daemon) -> None:
    for name in ("ada", "bob"):
        assert daemon.symbi("user", "add", name).returncode == 0
    ada, bob = (make_token(daemon, "--user", name, "--scope", "write") for name in ("ada", "bob"))
    theirs, mine = make_webhook(daemon, ada, "ada's"), make_webhook(daemon, bob, "bob's")
    # Signed with the secret of another webhook.
    assert theirs.post(secret=mine.secret).status == 401
    for method, tail in (("GET", ""), ("DELETE", ""), ("PATCH", ""), ("GET", "/audit"), ("POST", "/rotate")):
        body = {"is_active": False} if method == "PATCH" else None
        answer = ask(daemon, bob, method, f"/v1/webhooks/{theirs.id}{tail}", body)
        missing = ask(daemon, bob, method, f"/v1/webhooks/{uuid4()}{tail}", body)
        assert answer.status == missing.status == 404
    assert [row["title"] for row in ask(daemon, bob, "GET", "/v1/webhooks").json()["webhooks"]] == ["bob's"]
    assert theirs.post().status == 202


def test_both_secrets_are_good_during_the_overlap_and_the_audit_says_which(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "write")
    made = make_webhook(daemon, token)

    def rotate(overlap: str) -> str:
        rotated = ask(daemon, token, "POST", f"/v1/webhooks/{made.id}/rotate", {"overlap": overlap})
        assert rotated.status == 200
        return str(rotated.json()["secret"])

    new = rotate("1h")
    assert made.post(b'{"with":"old"}').status == 202
    assert made.post(b'{"with":"new"}', secret=new).status == 202
    assert [entry["secret"] for entry in audit(daemon, token, made)] == ["newest", "previous"]
    newest = rotate("1s")
    until(lambda: made.post(b'{"again":%d}' % time.time_ns(), secret=new).status == 401, what="the end of the overlap")
    assert made.post(b'{"with":"the newest"}', secret=newest).status == 202


def test_one_that_takes_unverified_requests_says_so_everywhere(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        token = make_token(daemon, "--scope", "write")
        made = make_webhook(daemon, token, insecure_allow_unverified=True)
        assert made.secret is None
        assert made.post().status == 202
        assert made.post(b"nope").status == 400
        entries = audit(daemon, token, made)
        assert [entry["verdict"] for entry in entries] == ["refused", "accepted"]
        assert all(entry["insecure_allow_unverified"] and entry["signature_valid"] is None for entry in entries)
    started = daemon.log.stat().st_size
    with running(tmp_path, "program") as daemon:
        # The last one is in the table of routes.
        for said in ("webhook_unverified", made.id, "unverified requests are accepted"):
            until(lambda said=said: said in daemon.log.read_bytes()[started:].decode(), what=said)  # type: ignore[misc]


def test_an_agent_that_is_gone_keeps_its_deliveries_waiting(tmp_path: Path) -> None:
    other = 'agent planner {\n    instruction "Plan."\n}\n'
    write_program(tmp_path, GITHUB + other)
    with running(tmp_path, "program") as daemon:
        token = make_token(daemon, "--scope", "write")
        made = make_webhook(daemon, token, agent="planner")
        daemon.load(GITHUB)
        assert made.post().status == 202
        database = sqlite3.connect(tmp_path / ".symbi/symbiont.db")
        query = "SELECT state FROM deliveries WHERE webhook = ? AND user_id = 'owner'"
        until(lambda: database.execute(query, (made.id,)).fetchone() == ("agent_gone",), what="agent_gone")
        database.close()


def test_the_minute_of_one_webhook_is_full_after_sixty(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "write")
    made, other = make_webhook(daemon, token), make_webhook(daemon, token)
    times: list[tuple[float, float]] = []
    while True:
        began = time.monotonic()
        answer = made.post(b'{"number":%d}' % len(times))
        if answer.status != 202:
            break
        times.append((began, time.monotonic()))
        # On a machine that takes a minute for sixty requests, the first of them do not count any more.
        assert len(times) < 600
    assert answer.status == 429
    # A minute after the first one: no 60 seconds ever contain more.
    assert 1 <= int(answer.headers["retry-after"]) <= 61
    assert sum(end > began - 61 for _, end in times) >= 60
    assert all(last[1] - first[0] > 60 for first, last in zip(times, times[60:], strict=False))
    assert other.post().status == 202


def test_no_secret_and_no_token_is_written_anywhere(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        token = make_token(daemon, "--scope", "admin", "--label", "for the test")
        made = make_webhook(daemon, token)
        new = ask(daemon, token, "POST", f"/v1/webhooks/{made.id}/rotate").json()["secret"]
        assert made.post(b"nope").status == 400
        assert made.post(secret="whsec_wrong").status == 401
        ask(daemon, token[:-1] + "!", "GET", "/v1/webhooks")
        ask(daemon, token, "POST", "/v1/webhooks", {"title": token, "agent": made.secret})
        printed = [
            daemon.symbi(*command.split()).stdout + daemon.symbi(*command.split()).stderr
            for command in ("webhook list --json", "token list --json", "user list --json", "webhook logs --json")
        ]
    secrets = [token.removeprefix("symbi_"), str(made.secret).removeprefix("whsec_"), new.removeprefix("whsec_")]
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    for secret in secrets:
        assert secret not in "".join(printed)
        assert secret.encode() not in kept
        assert secret.encode().hex().encode() not in kept


def test_a_body_over_the_bound_a_compressed_one_and_one_in_pieces(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "write")
    large = b'{"title":"x","agent":"reviewer","more":"' + b"x" * 70_000 + b'"}'
    answer = ask(daemon, token, "POST", "/v1/webhooks", large)
    assert (answer.status, answer.json()["type"]) == (413, "urn:symbiont:problem:too_large")
    answer = ask(daemon, token, "POST", "/v1/webhooks", b"\x1f\x8b", [("Content-Encoding", "gzip")])
    assert (answer.status, answer.json()["type"]) == (415, "urn:symbiont:problem:unsupported_media_type")


def test_what_answers_wears_no_page(daemon: Daemon) -> None:
    token = make_token(daemon)
    for answer in (ask(daemon, token, "GET", "/v1/<script>"), ask(daemon, token, "GET", "/v1/webhooks")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "json" in answer.headers["content-type"]
        assert b"<script>" not in answer.body
    head = ask(daemon, token, "HEAD", "/v1/webhooks")
    assert (head.status, head.body) == (200, b"")


def test_the_public_listener_serves_nothing_of_it(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "admin")
    for path in ("/v1/webhooks", "/v1/openapi.json", "/v1/webhooks.list"):
        answer = daemon.request("GET", path, None, [("Authorization", f"Bearer {token}")])
        assert answer.status == 404


def test_the_operators_listener_serves_no_operation_of_the_admin_socket(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "admin")
    for name in ("token_create", "secret_show", "user_add", "webhook_create", "webhook_mounts"):
        assert ask(daemon, token, "POST", f"/v1/{name}", {}).status == 404
        assert ask(daemon, None, "POST", f"/v1/{name}", {}).status == 401


def raw(daemon: Daemon, request: bytes) -> bytes:
    """Return at least the first line of the response to `request` on the operators' listener."""
    host, _, port = str(daemon.addresses["admin"]).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(request)
        answer = b""
        while b"\r\n" not in answer and (part := connection.recv(65_536)):
            answer += part
    return answer


def test_requests_that_are_hardly_http_do_nothing(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "write").encode()
    post = b"POST /v1/webhooks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + b"\r\n"
    body = b'{"title":"smuggled","agent":"reviewer"}'
    typed = post + b"Content-Type: application/json\r\n"
    large = b"11170\r\n" + b" " * 0x11170 + b"\r\n0\r\n\r\n"
    chunked = typed + b"Transfer-Encoding: chunked\r\n"
    for request, statuses in (
        (typed + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + body, {400}),
        (typed + b"Content-Length: 39\r\nContent-Length: 40\r\n\r\n" + body, {400}),
        (typed + b"Content-Length: -1\r\n\r\n" + body, {400}),
        (chunked + b"\r\nzz\r\n" + body, {400}),
        (chunked + b"\r\n" + large, {413}),
        (typed.replace(b"/v1/webhooks", b"/v1/web\x00hooks") + b"\r\n", {400, 404}),
        (typed.replace(b"Host: x", b"Host: x\r\nHost: y") + b"Content-Length: 2\r\n\r\n{}", {400, 422}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {400}),
    ):
        answer = raw(daemon, request)
        assert int(answer[9:12]) in statuses, (request[:300], answer[:300])
    host, _, port = str(daemon.addresses["admin"]).rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(typed + b"Content-Length: 39\r\n\r\n" + body[:-1])
    listed = ask(daemon, token.decode(), "GET", "/v1/webhooks?limit=200").json()["webhooks"]
    assert "smuggled" not in {webhook["title"] for webhook in listed}
    # A valid request in pieces.
    pieces = b"".join(b"%x\r\n%b\r\n" % (1, body[place : place + 1]) for place in range(len(body))) + b"0\r\n\r\n"
    assert raw(daemon, chunked + b"\r\n" + pieces)[9:12] == b"201"
