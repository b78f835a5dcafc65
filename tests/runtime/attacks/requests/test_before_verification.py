"""An unsigned request changes nothing: no row except in the audit, no key, no counter, no file."""

from __future__ import annotations

import json
import os
import time

from tests.runtime.attacks.wire import (
    exchange,
    files,
    github_headers,
    living,
    request,
    statuses,
    swarmlet_headers,
    tables,
)
from tests.runtime.daemon.running import Daemon, until

SECRET = b"not the secret"


def test_an_unverified_request_leaves_an_audit_row_and_nothing_else(daemon: Daemon) -> None:
    until(lambda: not living(daemon), what="the end of earlier runs")
    daemon.attempts()  # writes the pending audit
    before, there = tables(daemon), files(daemon)
    body = json.dumps({"id": "evt_forged", "type": "forged", "action": "opened"}).encode()
    stripe = swarmlet_headers(body, SECRET)
    wrong: list[tuple[str, list[tuple[str, str]]]] = [
        ("/hooks/github", []),
        ("/hooks/github", github_headers(body + b" ", "forged-id")),
        ("/hooks/filtered", github_headers(body + b" ", "forged-id")),
        ("/hooks/stripe", [("Stripe-Signature", f"t={stripe['t']},v1={stripe['v1']}")]),
        ("/hooks/token", [("X-Webhook-Token", "wrong")]),
        ("/hooks/jwt", [("Authorization", "Bearer a.b.c")]),
        ("/hooks/slack", [("X-Slack-Signature", "v0=" + "0" * 64), ("X-Slack-Request-Timestamp", stripe["t"])]),
        ("/webhooks/5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a11", []),
        ("/nothing", []),
    ]
    for path, headers in wrong * 3:
        assert daemon.request("POST", path, body, headers).status in {401, 404}
    assert statuses(exchange(daemon, request("/hooks/github", body).replace(b"HTTP/1.1", b"HTTP/9.9"))) == [505]
    daemon.attempts()  # writes the pending audit
    after = tables(daemon)
    assert {name for name in after if after[name] != before[name]} == {"attempts"}
    assert len(after["attempts"]) <= len(before["attempts"]) + len(wrong) * 3 + 1
    assert files(daemon) == there
    assert b"evt_forged" not in b"".join(repr(row).encode() for row in after["attempts"])


def test_what_was_refused_is_taken_once_it_is_signed(daemon: Daemon) -> None:
    """A forged request uses up neither the delivery id nor the quota."""
    body, name = b'{"n":1}', os.urandom(8).hex()
    forged = [("X-GitHub-Event", "push"), ("X-GitHub-Delivery", name), ("X-Hub-Signature-256", "sha256=" + "0" * 64)]
    assert [daemon.request("POST", "/hooks/github", body, forged).status for _ in range(3)] == [401] * 3
    first = daemon.request("POST", "/hooks/github", body, github_headers(body, name))
    assert first.status == 202
    rows = [row for row in daemon.attempts("--limit", "200") if row["delivery_id"] == first.json()["delivery_id"]]
    assert [row["verdict"] for row in rows] == ["accepted"]


def test_a_refused_body_is_not_read_for_an_event(daemon: Daemon) -> None:
    """The event and the id in an unverified body are stored nowhere."""
    marker = f"forged-{time.time_ns()}"
    body = json.dumps({"id": marker, "type": marker}).encode()
    assert daemon.request("POST", "/hooks/stripe", body, [("Stripe-Signature", "t=1,v1=00")]).status == 401
    assert marker not in json.dumps(daemon.attempts("--limit", "50"))
