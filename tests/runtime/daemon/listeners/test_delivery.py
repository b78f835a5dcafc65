"""Deliveries over real HTTP to a real daemon: signed requests are accepted, and no others."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stripe
from slack_sdk.signature import SignatureVerifier

from tests.runtime.daemon.running import GITHUB, SECRET, Answer, Daemon, contents, running, symbi, until, write_program

STRIPE_SECRET = "whsec_dGVzdA"
SLACK_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
SWARMLET_SECRET = "wh_secret"
CUSTOM_SECRET = "c-secret"

PROGRAM = """\
webhook github-events { path "/hooks/github", provider github, secret "secret://env/GITHUB_SECRET", agent recorder }
webhook limited {
    path "/hooks/limited"
    provider github
    secret "secret://env/GITHUB_SECRET"
    agent recorder
    limits { body 256KiB }
}
webhook opened {
    path "/hooks/opened"
    provider github
    secret "secret://env/GITHUB_SECRET"
    agent recorder
    filter { json_path "$.action" equals "opened" }
}
webhook stripe { path "/hooks/stripe", provider stripe, secret "secret://env/STRIPE_SECRET", agent recorder }
webhook slack { path "/hooks/slack", provider slack, secret "secret://env/SLACK_SECRET", agent recorder }
webhook swarmlet { path "/hooks/swarmlet", provider swarmlet, secret "secret://env/SWARMLET_SECRET", agent recorder }
webhook own {
    path "/hooks/own"
    provider custom {
        header "X-Own-Signature"
        prefix "sig="
        encoding base64
        timestamp_header "X-Own-Time"
        id_header "X-Own-Id"
        payload "{timestamp}.{id}.{body}"
    }
    secret "secret://env/CUSTOM_SECRET"
    agent recorder
}
webhook open { path "/hooks/open", insecure_allow_unverified true, agent recorder }
webhook missing { path "/hooks/missing", provider github, secret "secret://env/NOT_SET", agent recorder }
webhook blank { path "/hooks/blank", provider github, secret "secret://env/BLANK", agent recorder }
agent recorder { instruction "Remember." }
"""
SECRETS = {
    "STRIPE_SECRET": STRIPE_SECRET,
    "SLACK_SECRET": SLACK_SECRET,
    "SWARMLET_SECRET": SWARMLET_SECRET,
    "CUSTOM_SECRET": CUSTOM_SECRET,
    "BLANK": "  ",
}

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("daemon")
    write_program(root, PROGRAM)
    with running(root, "program", wait=True, **SECRETS) as started:
        yield started


def fresh_body(**content: Any) -> bytes:
    return json.dumps({"nonce": os.urandom(8).hex(), **content}).encode()


def github(body: bytes, now: float) -> Pairs:
    mac = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return [
        ("X-GitHub-Event", "push"),
        ("X-GitHub-Delivery", os.urandom(8).hex()),
        ("X-Hub-Signature-256", f"sha256={mac}"),
    ]


def stripe_signed(body: bytes, now: float) -> Pairs:
    mac = stripe.WebhookSignature._compute_signature(f"{int(now)}.{body.decode()}", STRIPE_SECRET)
    return [("Stripe-Signature", f"t={int(now)},v1={mac}")]


def slack_signed(body: bytes, now: float) -> Pairs:
    signature = SignatureVerifier(SLACK_SECRET).generate_signature(timestamp=str(int(now)), body=body)
    assert signature is not None
    return [("X-Slack-Request-Timestamp", str(int(now))), ("X-Slack-Signature", signature)]


def swarmlet_signed(body: bytes, now: float) -> Pairs:
    mac = hmac.new(SWARMLET_SECRET.encode(), b"%d." % int(now) + body, hashlib.sha256).hexdigest()
    return [("X-Swarmlet-Signature", f"t={int(now)},v1={mac}")]


def own_signed(body: bytes, now: float) -> Pairs:
    own_id = os.urandom(8).hex()
    mac = hmac.digest(CUSTOM_SECRET.encode(), f"{int(now)}.{own_id}.".encode() + body, "sha256")
    return [
        ("X-Own-Time", str(int(now))),
        ("X-Own-Id", own_id),
        ("X-Own-Signature", f"sig={base64.b64encode(mac).decode()}"),
    ]


SENDERS = {
    "github": (github, "X-Hub-Signature-256"),
    "stripe": (stripe_signed, "Stripe-Signature"),
    "slack": (slack_signed, "X-Slack-Signature"),
    "swarmlet": (swarmlet_signed, "X-Swarmlet-Signature"),
    "own": (own_signed, "X-Own-Signature"),
}
every_sender = pytest.mark.parametrize("name", list(SENDERS))
timed_sender = pytest.mark.parametrize("name", ["stripe", "slack", "swarmlet", "own"])


def post(daemon: Daemon, name: str, body: bytes, headers: Pairs) -> Answer:
    return daemon.request("POST", f"/hooks/{name}", body, headers)


def signed(name: str, body: bytes, now: float | None = None) -> Pairs:
    return SENDERS[name][0](body, time.time() if now is None else now)


def logs(daemon: Daemon, name: str) -> list[dict[str, Any]]:
    """Return the audit log of a webhook."""
    answer = json.loads(daemon.symbi("webhook", "logs", "--name", name, "--json").stdout)
    return list(answer["attempts"])


def refused(answer: Answer) -> str:
    assert answer.status == 401, answer
    assert answer.headers["content-type"] == "application/json"
    content = answer.json()
    assert set(content) == {"error", "message"}
    return str(content["error"])


@every_sender
def test_what_the_sender_signed_is_accepted(daemon: Daemon, name: str) -> None:
    body = fresh_body(type="push", id=os.urandom(8).hex(), event_id=os.urandom(8).hex())
    answer = post(daemon, name, body, signed(name, body))
    if name == "slack":  # the text of the response to a command would be shown in the channel
        assert (answer.status, answer.body) == (200, b"")
        return
    assert answer.status == 202
    assert set(answer.json()) == {"delivery_id"}


@every_sender
def test_a_changed_body_is_refused(daemon: Daemon, name: str) -> None:
    body = fresh_body()
    assert refused(post(daemon, name, body + b" ", signed(name, body))) == "invalid_signature"


@every_sender
def test_a_reserialised_body_is_refused(daemon: Daemon, name: str) -> None:
    body = fresh_body(letter="ä")
    again = json.dumps(json.loads(body), indent=1, ensure_ascii=False).encode()
    assert refused(post(daemon, name, again, signed(name, body))) == "invalid_signature"


@every_sender
def test_a_missing_signature_is_refused(daemon: Daemon, name: str) -> None:
    body = fresh_body()
    headers = [pair for pair in signed(name, body) if pair[0] != SENDERS[name][1]]
    assert refused(post(daemon, name, body, headers)) == "missing_signature"


@every_sender
@pytest.mark.parametrize(
    "damage",
    [lambda s: s[:-1], lambda s: s[:-8], lambda s: s + "é", lambda s: s + "0", lambda s: "", lambda s: s.upper()],
)
def test_a_damaged_signature_is_refused(daemon: Daemon, name: str, damage: Any) -> None:
    body = fresh_body()
    header = SENDERS[name][1]
    headers = [(key, damage(value)) if key == header else (key, value) for key, value in signed(name, body)]
    assert refused(post(daemon, name, body, headers)) in {"invalid_signature", "missing_signature"}


@every_sender
def test_a_signature_sent_twice_is_refused(daemon: Daemon, name: str) -> None:
    body = fresh_body()
    headers = signed(name, body)
    twice = [pair for pair in headers if pair[0] == SENDERS[name][1]]
    assert refused(post(daemon, name, body, headers + twice)) == "invalid_signature"


@every_sender
def test_a_signature_by_another_secret_is_refused(daemon: Daemon, name: str) -> None:
    body = fresh_body()
    other = "swarmlet" if name != "swarmlet" else "stripe"
    value = next(value for key, value in signed(other, body) if key == SENDERS[other][1])
    headers = [(key, value) if key == SENDERS[name][1] else (key, kept) for key, kept in signed(name, body)]
    assert refused(post(daemon, name, body, headers)) == "invalid_signature"


@timed_sender
@pytest.mark.parametrize(("seconds", "reason"), [(-302, "stale"), (302, "future")])
def test_a_request_from_another_time_is_refused(daemon: Daemon, name: str, seconds: int, reason: str) -> None:
    body = fresh_body()
    assert refused(post(daemon, name, body, signed(name, body, time.time() + seconds))) == reason


@timed_sender
def test_a_request_from_another_time_by_another_secret_learns_nothing(daemon: Daemon, name: str) -> None:
    body = fresh_body()
    headers = signed(name, body + b"!", time.time() - 9999)
    assert refused(post(daemon, name, body, headers)) == "invalid_signature"


def test_a_timestamp_in_other_digits_is_refused(daemon: Daemon) -> None:
    body = fresh_body()
    now = str(int(time.time()))
    wide = "".join(chr(ord(digit) + 0xFEE0) for digit in now)
    mac = hmac.new(SLACK_SECRET.encode(), f"v0:{wide}:".encode() + body, hashlib.sha256).hexdigest()
    headers = [("X-Slack-Request-Timestamp", wide), ("X-Slack-Signature", f"v0={mac}")]
    assert refused(post(daemon, "slack", body, headers)) == "invalid_signature"


def test_githubs_published_values_verify(daemon: Daemon) -> None:
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = [("X-GitHub-Delivery", "published"), ("X-Hub-Signature-256", signature)]
    assert post(daemon, "github", b"Hello, World!", headers).status == 202


def test_white_space_around_a_header_is_no_part_of_it(daemon: Daemon) -> None:
    body = fresh_body()
    headers = [(key, f"  {value} \t") for key, value in signed("github", body)]
    assert post(daemon, "github", body, headers).status == 202


def test_githubs_form_deliveries_are_read(daemon: Daemon) -> None:
    from urllib.parse import urlencode

    body = urlencode({"payload": json.dumps({"action": "opened"})}).encode()
    headers = [*signed("github", body), ("Content-Type", "application/x-www-form-urlencoded")]
    assert post(daemon, "opened", body, headers).json().keys() == {"delivery_id"}


def test_slacks_handshake_is_answered_once_it_is_verified(daemon: Daemon) -> None:
    body = json.dumps({"type": "url_verification", "challenge": "3eZbrw1a", "token": "x"}).encode()
    answer = post(daemon, "slack", body, signed("slack", body))
    assert (answer.status, answer.body) == (200, b"3eZbrw1a")
    assert answer.headers["content-type"].startswith("text/plain")
    assert refused(post(daemon, "slack", body, signed("slack", body + b" "))) == "invalid_signature"


def test_a_delivery_id_sent_again_gets_the_first_answer_and_runs_once(daemon: Daemon) -> None:
    body = fresh_body()
    headers = signed("github", body)
    first = post(daemon, "github", body, headers)
    second = post(daemon, "github", body, headers)
    assert (first.status, first.body) == (second.status, second.body)
    delivery = first.json()["delivery_id"]
    rows = [row for row in daemon.attempts("--limit", "1000") if row["delivery_id"] == delivery]
    assert sorted(row["verdict"] for row in rows) == ["accepted", "repeated"]


def test_a_timestamped_request_without_an_id_is_taken_once(daemon: Daemon) -> None:
    body = fresh_body()
    headers = signed("swarmlet", body)
    assert post(daemon, "swarmlet", body, headers).status == 202
    assert refused(post(daemon, "swarmlet", body, headers)) == "replayed"
    assert refused(post(daemon, "swarmlet", body, [(key.upper(), value) for key, value in headers])) == "replayed"


def test_what_a_filter_does_not_want_is_answered_and_not_kept(daemon: Daemon) -> None:
    body = fresh_body(action="closed")
    answer = post(daemon, "opened", body, signed("github", body))
    assert (answer.status, answer.json()) == (200, {"status": "filtered"})
    assert daemon.attempts("--name", "opened")[-1]["verdict"] == "filtered"


def test_a_filter_that_cannot_read_the_body_answers_400(daemon: Daemon) -> None:
    for body in (b"not json", b'{"a":NaN}', b"[" * 100_000, b"\xff"):
        answer = post(daemon, "opened", body, signed("github", body))
        assert answer.status == 400, body
        assert answer.json()["error"] in {"invalid_json", "too_deep"}


def test_an_unverified_webhook_takes_anything(daemon: Daemon) -> None:
    assert post(daemon, "open", fresh_body(), []).status == 202


@pytest.mark.parametrize("name", ["missing", "blank"])
def test_a_webhook_without_its_secret_is_not_there(daemon: Daemon, name: str) -> None:
    body = fresh_body()
    assert post(daemon, name, body, signed("github", body)).status == 404
    # Neither an empty key nor the text of the reference is accepted.
    for key in ("", "secret://env/NOT_SET", "  "):
        mac = hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
        assert post(daemon, name, body, [("X-Hub-Signature-256", f"sha256={mac}")]).status == 404
    reasons = {row["webhook"]: row["reason"] for row in daemon.readyz().json()["not_mounted"]}
    assert "NOT_SET is not set" in reasons["missing"]
    assert "is blank" in reasons["blank"]
    daemon.until_logged("NOT_SET is not set")


@pytest.mark.parametrize(
    "path",
    ["/", "/hooks", "/hooks/githubb", "/hooks/github/", "/hooks/github%2f", "/HOOKS/github", "//hooks/github", "/v1/x"],
)
def test_only_the_exact_path_answers(daemon: Daemon, path: str) -> None:
    body = fresh_body()
    answer = daemon.request("POST", path, body, signed("github", body))
    assert (answer.status, answer.json()["error"]) == (404, "not_found")


def test_a_query_does_not_change_the_path(daemon: Daemon) -> None:
    body = fresh_body()
    assert daemon.request("POST", "/hooks/github?x=1", body, signed("github", body)).status == 202


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
def test_another_method_is_told_the_right_one(daemon: Daemon, method: str) -> None:
    answer = daemon.request(method, "/hooks/github")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_a_body_of_exactly_the_limit_is_accepted_and_one_byte_more_is_not(daemon: Daemon) -> None:
    body = b"x" * 262_144
    assert post(daemon, "limited", body, signed("github", body)).status == 202
    assert post(daemon, "limited", body + b"x", signed("github", body + b"x")).status == 413
    until(lambda: any(row["reason"] == "body_too_large" for row in logs(daemon, "limited")))
    assert 262_145 in [row["size"] for row in logs(daemon, "limited") if row["reason"] == "body_too_large"]


def test_without_a_limit_of_its_own_a_webhook_takes_what_its_provider_sends(daemon: Daemon) -> None:
    body = json.dumps({"ref": "refs/heads/main", "commits": ["x" * 400] * 20_000}).encode()
    assert post(daemon, "github", body, signed("github", body)).status == 202
    assert post(daemon, "open", body, []).status == 413
    assert post(daemon, "open", body[: 1024 * 1024], []).status == 202


def test_a_chunked_body_over_the_limit_is_refused(daemon: Daemon) -> None:
    host, _, port = str(daemon.addresses["public"]).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as link:
        link.sendall(b"POST /hooks/limited HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
        try:
            for _ in range(20):
                link.sendall(chunk)
        except OSError:
            pass
        assert link.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_sender_that_expects_to_be_told_to_continue_is_told(daemon: Daemon) -> None:
    body = fresh_body()
    head = "".join(f"{key}: {value}\r\n" for key, value in signed("github", body))
    host, _, port = str(daemon.addresses["public"]).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as link:
        head += f"Host: x\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n"
        link.sendall(f"POST /hooks/github HTTP/1.1\r\n{head}\r\n".encode())
        assert link.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        link.sendall(body)
        assert link.recv(4096).startswith(b"HTTP/1.1 202")


def test_a_sender_that_goes_away_in_the_middle_is_noted_and_is_no_fault_of_ours(daemon: Daemon) -> None:
    host, _, port = str(daemon.addresses["public"]).rpartition(":")
    before = daemon.log.read_text().count("request_failed")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"POST /hooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")

    def noted() -> bool:
        return any(
            row["reason"] == "incomplete_body" for row in daemon.attempts("--name", "github-events", "--limit", "1000")
        )

    until(noted)
    assert daemon.log.read_text().count("request_failed") == before


def test_a_sender_that_never_reads_its_answers_is_not_asked_further(daemon: Daemon) -> None:
    host, _, port = str(daemon.addresses["public"]).rpartition(":")
    requests = b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n" * 500_000
    with socket.create_connection((host, int(port))) as connection:
        connection.settimeout(2)
        with pytest.raises(TimeoutError):
            connection.sendall(requests)
    assert daemon.request("GET", "/healthz").status == 200


def test_a_compressed_body_is_refused(daemon: Daemon) -> None:
    body = gzip.compress(fresh_body())
    answer = post(daemon, "github", body, [*signed("github", body), ("Content-Encoding", "gzip")])
    assert (answer.status, answer.json()["error"]) == (415, "compressed_body")


def test_the_audit_holds_every_attempt_and_never_a_refused_body(daemon: Daemon) -> None:
    marker = os.urandom(16).hex().encode()
    assert post(daemon, "github", marker, signed("github", b"other")).status == 401
    digest = hashlib.sha256(marker).hexdigest()
    row = until(lambda: next((row for row in daemon.attempts("--limit", "1000") if row["body_sha256"] == digest), None))
    assert (row["verdict"], row["reason"], row["status"], row["size"]) == ("refused", "signature_mismatch", 401, 32)
    assert row["source"] == "127.0.0.1"
    assert not any(name.lower() == "x-hub-signature-256" for name, _ in row["headers"])
    assert not [file for file, content in contents(daemon.root / ".symbi") if marker in content]


def test_no_secret_stands_in_the_log_the_database_or_the_memory(daemon: Daemon) -> None:
    body = fresh_body(note=f"my password is hunter22 and token={SLACK_SECRET}")
    assert post(daemon, "open", body, []).status == 202
    assert post(daemon, "github", body, signed("github", body)).status == 202
    until(lambda: all(row["run_state"] in {"done", None} for row in daemon.attempts("--limit", "1000")))
    for file, content in contents(daemon.root):
        for secret in (SECRET, STRIPE_SECRET, SLACK_SECRET, CUSTOM_SECRET):
            assert secret.encode() not in content or file.name == "master.key", (file, secret)


def test_an_accepted_delivery_is_remembered_in_todays_log(daemon: Daemon) -> None:
    title = f"Add a thing {os.urandom(4).hex()}"
    body = fresh_body(
        action="opened",
        repository={"full_name": "octo/site"},
        pull_request={"number": 7, "title": title},
        sender={"login": "mona"},
    )
    assert post(daemon, "github", body, signed("github", body)).status == 202

    def entry() -> str:
        text = json.loads(daemon.symbi("memory", "inspect", "recorder", "--json").stdout)["log"]["text"] or ""
        return next((part for part in text.split("\n## ") if title in part), "")

    lines = until(entry).splitlines()
    assert lines[0].endswith("GitHub push")
    assert {"- repository: octo/site", "- action: opened", "- number: 7", f"- title: {title}", "- sender: mona"} <= set(
        lines
    )


def test_webhook_test_signs_posts_and_shows_the_answer(daemon: Daemon, tmp_path: Path) -> None:
    payload = tmp_path / "payload.json"
    payload.write_text('{"action":"opened"}')
    for name in ("github-events", "slack", "stripe", "swarmlet", "own", "open"):
        for given in (json.dumps({"action": "opened", "n": time.time_ns()}), f"@{payload}"):
            done = daemon.symbi("webhook", "test", name, "--payload", given)
            assert done.returncode == 0, done.stdout + done.stderr
            # Slack accepts only an empty 200.
            for part in ("200 OK",) if name == "slack" else ("202 Accepted", "delivery_id"):
                assert part in done.stdout


def test_webhook_list_shows_what_is_mounted_and_why_not(daemon: Daemon) -> None:
    rows = {row["name"]: row for row in json.loads(daemon.symbi("webhook", "list", "--json").stdout)["webhooks"]}
    assert rows["stripe"]["mounted"]
    assert rows["stripe"]["secret"] == "env STRIPE_SECRET"
    assert not rows["missing"]["mounted"]
    line = PROGRAM[: PROGRAM.index("webhook missing")].count("\n") + 1
    assert rows["missing"]["declared"].endswith(f"hooks.symbiont:{line}")


def test_commands_answer_the_same_with_and_without_a_daemon(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program", wait=True, **SECRETS) as daemon:
        body = fresh_body()
        assert post(daemon, "github", body, signed("github", body)).status == 202
        until(lambda: all(row["run_state"] == "done" for row in daemon.attempts()))
        commands = (("webhook", "logs", "--json"), ("memory", "list", "--json"), ("memory", "inspect", "recorder"))
        with_daemon = [daemon.symbi(*command).stdout for command in commands]
    assert [symbi(*command, root=tmp_path, **SECRETS).stdout for command in commands] == with_daemon
    assert len(with_daemon[0]) > 100


def test_a_list_tells_the_public_url_and_that_nothing_is_mounted_without_a_daemon(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program", wait=True, SYMBIONT_PUBLIC_URL="https://hooks.example.com/") as daemon:
        (row,) = json.loads(daemon.symbi("webhook", "list", "--json").stdout)["webhooks"]
        assert (row["mounted"], row["url"]) == (True, "https://hooks.example.com/hooks/github")
    (row,) = json.loads(daemon.symbi("webhook", "list", "--json").stdout)["webhooks"]
    assert (row["mounted"], row["url"], row["problem"]) == (False, None, None)
    assert "no daemon" in daemon.symbi("webhook", "list").stdout


def test_readiness_names_what_did_not_reach_its_agent(tmp_path: Path) -> None:
    write_program(tmp_path, GITHUB.replace('instruction "Remember."', "enabled false"))
    with running(tmp_path, "program") as daemon:
        assert daemon.github(b"{}", "1").status == 202

        def found() -> dict[str, str]:
            rows = json.loads(daemon.symbi("readiness", "--json").stdout)["checks"]
            return {row["check"]: row["status"] + " " + row["text"] for row in rows}

        until(
            lambda: found()["deliveries"].startswith("YELLOW 0 deliveries in progress; 1 delivery whose agent is gone")
        )
