"""Anything over a limit is refused with the status for it, and affects no other request."""

from __future__ import annotations

import json
import os
import time
from urllib.parse import urlencode

import pytest

from tests.lanes import LONG
from tests.runtime.attacks.conftest import STRIPE_SECRET
from tests.runtime.attacks.wire import exchange, github_headers, operate, request, statuses, swarmlet_headers
from tests.runtime.daemon.running import Daemon, until
from tests.runtime.daemon.v1 import ask, make_webhook

pytestmark = LONG

DIGITS = 240_000
NUMBERS = {
    "digits": b"9" * DIGITS,
    "negative": b"-" + b"9" * DIGITS,
    "fraction": b"0." + b"1" * DIGITS,
    "exponent": b"1e" + b"9" * DIGITS,
    "infinite": b"1e999999",
    "tiny": b"1e-999999",
    "zeros": b"1" + b"0" * DIGITS,
}
DEEP = {
    "arrays": b"[" * 120_000 + b"]" * 120_000,
    "objects": b'{"a":' * 40_000 + b"1" + b"}" * 40_000,
    "open": b"[" * 240_000,
    "strings": b'"' * 240_000,
    "escapes": b'{"a":"' + b"\\u0041" * 39_000 + b'"}',
    "keys": b"{" + b",".join(b'"k%d":%d' % (number, number) for number in range(16_000)) + b"}",
    "same keys": b"{" + b",".join([b'"k":1'] * 40_000) + b"}",
    "colons": b'{"a":"' + b":" * 240_000 + b'"}',
    "surrogates": b'{"a":"' + b"\\ud800" * 39_000 + b'"}',
}


@pytest.mark.parametrize("kind", [*NUMBERS, *DEEP])
def test_a_body_that_is_hard_to_read_is_read_or_refused(daemon: Daemon, kind: str) -> None:
    """Paths whose body is read by a filter, for the event, and by an agent."""
    value = NUMBERS.get(kind)
    bodies = [DEEP[kind]] if value is None else [
        b'{"action":%b}' % value, b'{"id":%b,"type":"t"}' % value, b'{"number":%b,"title":"x"}' % value, value
    ]  # fmt: skip
    accepted = set()
    for body in bodies:
        filtered = daemon.request("POST", "/hooks/filtered", body, github_headers(body))
        assert filtered.status in {200, 400}, filtered
        signed = swarmlet_headers(body, STRIPE_SECRET.encode())
        header = ("Stripe-Signature", f"t={signed['t']},v1={signed['v1']}")
        assert daemon.request("POST", "/hooks/stripe", body, [header]).status in {202, 400}
        assert daemon.request("POST", "/hooks/open", body).status in {202, 400}
        answer = daemon.request("POST", "/hooks/github", body, github_headers(body))
        assert answer.status == 202
        accepted.add(answer.json()["delivery_id"])

    def run() -> bool:
        states = {row["delivery_id"]: row["run_state"] for row in daemon.attempts("--limit", "100")}
        return all(states.get(each) == "done" for each in accepted)

    until(run, what="the runs")


@pytest.mark.parametrize("count", [1000, 1001, 50_000])
def test_a_form_of_thousands_of_fields_is_read_or_refused(daemon: Daemon, count: int) -> None:
    body = ("&".join(["a=1"] * (count - 1)) + "&" + urlencode({"payload": '{"action":"opened"}'})).encode()
    headers = [*github_headers(body), ("Content-Type", "application/x-www-form-urlencoded")]
    answer = daemon.request("POST", "/hooks/filtered", body, headers)
    assert answer.status == (202 if count <= 1000 else 400)


@pytest.mark.parametrize("body", [*NUMBERS.values(), *DEEP.values()], ids=[*NUMBERS, *DEEP])
def test_what_operators_are_sent_is_refused_as_well(daemon: Daemon, token: str, body: bytes) -> None:
    for raw in (body[:60_000], b'{"title":%b,"agent":"reviewer"}' % body[:60_000]):
        assert ask(daemon, token, "POST", "/v1/webhooks", raw).status in {400, 422}
    for name in ("webhook_requests", "webhook_create"):
        for raw in (body, b'{"tail":%b}' % body):
            assert operate(daemon, name, raw).status in {200, 400}
    made = make_webhook(daemon, token)
    answer = daemon.request("POST", made.path, body, made.headers(body))
    assert answer.status in {202, 400}
    assert ask(daemon, token, "DELETE", f"/v1/webhooks/{made.id}").status == 204


def test_each_size_has_its_status(daemon: Daemon, token: str) -> None:
    body = b"{}"
    for path, status in ((b"/" + b"a" * 8000, 404), (b"/" + b"a" * 9000, 414), (b"/hooks/github?" + b"a" * 9000, 414)):
        assert statuses(exchange(daemon, request(path, body, github_headers(body)))) == [status]
    many = [(f"X-{number}", "a") for number in range(101)]
    for headers in (many, [("X", "a" * 33_000)], [("X" * 33_000, "a")], [("Cookie", "a=b; " * 7000)]):
        assert statuses(exchange(daemon, request("/hooks/github", body, headers))) == [431]
    huge = b"POST /hooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: "
    for length, status in ((b"999999999999999999", 413), (b"9" * 19, 400), (b"26214401", 413), (b"-1", 400)):
        assert statuses(exchange(daemon, huge + length + b"\r\n\r\n")) == [status]
    for data, status in (
        (request("/v1/webhooks" + "a" * 70_000, b"", {}, "GET"), 414),
        (request("/v1", b"", {"X": "a" * 70_000}, "GET"), 431),
    ):
        assert statuses(exchange(daemon, data, "admin")) == [status]
    long = "a" * 4000
    for query in (f"cursor={long}", f"limit={'9' * 4000}", "&".join(["a=1"] * 500), f"{long}=1", "limit=1e3"):
        assert ask(daemon, token, "GET", f"/v1/webhooks?{query}").status in {400, 422}


def test_the_longest_id_and_event_are_kept_short(daemon: Daemon) -> None:
    for size in (200, 201, 255, 256, 30_000):
        body = json.dumps({"id": "i" * size + os.urandom(4).hex(), "type": "t" * size}).encode()
        signed = swarmlet_headers(body, STRIPE_SECRET.encode(), str(int(time.time())))
        answer = daemon.request(
            "POST", "/hooks/stripe", body, [("Stripe-Signature", f"t={signed['t']},v1={signed['v1']}")]
        )
        assert answer.status in {202, 400}
    assert all(len(row["event"] or "") <= 255 for row in daemon.attempts("--limit", "50"))
