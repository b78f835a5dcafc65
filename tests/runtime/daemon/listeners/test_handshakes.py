"""Handshakes over real HTTP: each provider gets the response that it expects, and no response is a page."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.daemon.running import Daemon, running, symbi, until, write_program
from tests.signatures import sign

SECRET = "an app's secret"
TOKEN = "a verify token"
PROGRAM = """\
webhook meta {
    path "/hooks/meta"
    provider meta { verify_token "secret://env/META_VERIFY_TOKEN" }
    secret "secret://env/APP_SECRET"
}
webhook deaf {
    path "/hooks/deaf"
    provider meta { verify_token "secret://env/NOT_SET" }
    secret "secret://env/APP_SECRET"
}
webhook dropbox { path "/hooks/dropbox", provider dropbox, secret "secret://env/APP_SECRET" }
webhook posts { path "/hooks/posts", provider twitter, secret "secret://env/APP_SECRET" }
webhook cards {
    path "/hooks/cards"
    provider trello
    secret "secret://env/APP_SECRET"
    public_url "https://hooks.example/hooks/cards"
}
webhook calls { path "/hooks/calls", provider zoom, secret "secret://env/APP_SECRET" }
webhook rotated {
    path "/hooks/rotated"
    provider zoom
    secret ["secret://env/NEW_SECRET", "secret://env/APP_SECRET"]
}
webhook shop { path "/hooks/shop", provider woocommerce, secret "secret://env/APP_SECRET" }
webhook grid { path "/hooks/grid", provider azure-event-grid, secret "secret://env/APP_SECRET" }
webhook payments { path "/hooks/payments", provider adyen, secret "secret://env/ADYEN_KEY" }
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("daemon")
    write_program(root, PROGRAM)
    secrets = {"APP_SECRET": SECRET, "META_VERIFY_TOKEN": TOKEN, "ADYEN_KEY": "44" * 32, "NEW_SECRET": "newer"}
    with running(root, "program", wait=True, **secrets) as started:
        yield started


def test_meta_subscribes_with_the_token_that_an_option_refers_to(daemon: Daemon) -> None:
    query = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="
    answer = daemon.request("GET", f"/hooks/meta?{query}a%20verify+token")
    assert (answer.status, answer.body) == (200, b"1158201444")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    wrong = daemon.request("GET", f"/hooks/meta?{query}secret%3A%2F%2Fenv%2FMETA_VERIFY_TOKEN")
    assert (wrong.status, wrong.json()["error"]) == (403, "wrong_verify_token")


def test_a_webhook_whose_option_refers_to_nothing_is_not_mounted_and_says_why(daemon: Daemon) -> None:
    assert daemon.request("GET", "/hooks/deaf?hub.mode=subscribe&hub.challenge=1&hub.verify_token=").status == 404
    listed = daemon.symbi("webhook", "list").stdout
    assert "NOT_SET" in listed
    assert TOKEN not in listed


def test_a_program_with_a_sender_that_signs_its_url_is_refused_without_one(tmp_path: Path) -> None:
    write_program(tmp_path, 'webhook lost { path "/lost" provider trello secret "secret://env/APP_SECRET" }\n')
    refused = symbi("up", "program", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", root=tmp_path)
    assert refused.returncode == 2
    assert "`public_url` is required" in refused.stderr


def test_challenges_are_never_given_back_as_a_page(daemon: Daemon) -> None:
    answer = daemon.request("GET", "/hooks/dropbox?challenge=kVb3-_x9")
    assert (answer.status, answer.body, answer.headers["x-content-type-options"]) == (200, b"kVb3-_x9", "nosniff")
    for challenge in ("%3Cscript%3Ealert(1)%3C/script%3E", "a%0d%0aX-Injected:%201", ""):
        refused = daemon.request("GET", f"/hooks/dropbox?challenge={challenge}")
        assert (refused.status, refused.json()["error"]) == (400, "not_a_handshake")
        assert b"script" not in refused.body
        assert "x-injected" not in refused.headers


def test_x_is_given_the_proof_of_its_token(daemon: Daemon) -> None:
    answer = daemon.request("GET", "/hooks/posts?crc_token=MTIz_-a&nonce=x")
    proof = base64.b64encode(hmac.digest(SECRET.encode(), b"MTIz_-a", hashlib.sha256)).decode()
    assert (answer.status, answer.json()) == (200, {"response_token": f"sha256={proof}"})


def test_event_grid_may_send_cloud_events_once_it_has_asked(daemon: Daemon) -> None:
    origin = ("WebHook-Request-Origin", "eventgrid.azure.net")
    answer = daemon.request("OPTIONS", "/hooks/grid", headers=[origin, ("WebHook-Request-Rate", "120")])
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["webhook-allowed-origin"] == "eventgrid.azure.net"
    assert answer.headers["webhook-allowed-rate"] == "*"
    assert answer.headers["allow"] == "POST"
    other = daemon.request("OPTIONS", "/hooks/grid", headers=[("WebHook-Request-Origin", "<b>")])
    assert (other.status, other.json()["error"]) == (400, "not_a_handshake")
    event = {"specversion": "1.0", "id": "7", "source": "/orders", "type": "order.made"}
    token = [("X-Webhook-Token", SECRET), ("Content-Type", "application/cloudevents+json"), origin]
    first, second = (daemon.request("POST", "/hooks/grid", json.dumps(event).encode(), token) for _ in range(2))
    assert (first.status, second.json()) == (202, first.json())


def test_trello_looks_by_head(daemon: Daemon) -> None:
    answer = daemon.request("HEAD", "/hooks/cards")
    assert (answer.status, answer.body) == (200, b"")


def test_woocommerce_tries_a_new_webhook_without_a_signature(daemon: Daemon) -> None:
    form = [("Content-Type", "application/x-www-form-urlencoded")]
    assert daemon.request("POST", "/hooks/shop", b"webhook_id=7", form).status == 200
    assert daemon.request("POST", "/hooks/shop", b"webhook_id=7&x=1", form).status == 401


def test_zoom_is_given_the_proof_of_a_token_that_it_signed_for(daemon: Daemon) -> None:
    body = json.dumps({"event": "endpoint.url_validation", "payload": {"plainToken": "abc"}}).encode()
    signed = sign("zoom", SECRET, body, now=time.time(), delivery_id="")
    answer = daemon.request("POST", "/hooks/calls", body, signed)
    proof = hmac.digest(SECRET.encode(), b"abc", "sha256").hex()
    assert answer.json() == {"plainToken": "abc", "encryptedToken": proof}
    assert daemon.request("POST", "/hooks/calls", body, signed[:1]).status == 401


@pytest.mark.parametrize("signer", [SECRET, "newer"])
def test_while_secrets_change_zoom_is_answered_with_the_one_that_it_has(daemon: Daemon, signer: str) -> None:
    body = json.dumps({"event": "endpoint.url_validation", "payload": {"plainToken": "abc"}}).encode()
    answer = daemon.request("POST", "/hooks/rotated", body, sign("zoom", signer, body, now=time.time(), delivery_id=""))
    assert answer.json()["encryptedToken"] == hmac.digest(signer.encode(), b"abc", "sha256").hex()


def test_a_delivery_is_answered_as_its_sender_wants_it(daemon: Daemon) -> None:
    item = {"pspReference": "1", "amount": {"value": 1, "currency": "EUR"}, "eventCode": "CAPTURE", "success": "true"}
    file = daemon.root / "notification.json"
    file.write_text(json.dumps({"notificationItems": [{"NotificationRequestItem": item}]}))
    done = daemon.symbi("webhook", "test", "payments", "--payload", f"@{file}")
    assert done.returncode == 0, done.stderr
    assert "[accepted]" in done.stdout


def test_a_handshake_stands_in_the_audit_and_is_no_delivery(daemon: Daemon) -> None:
    daemon.request("GET", "/hooks/dropbox?challenge=a")
    rows = until(lambda: daemon.attempts("--name", "dropbox"), what="the audit")
    assert {row["verdict"] for row in rows} <= {"handshake", "refused"}
    assert "handshake" in {row["verdict"] for row in rows}
