"""Bodies as senders really write them: decoded if that is possible, and otherwise refused where they decide."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.runtime.daemon.running import Answer, Daemon, running, until, write_program
from tests.signatures import sign

SECRET = "a secret of the sender"
MARK = b"\xef\xbb\xbf"
PROGRAM = """\
webhook reviews {
    path "/hooks/reviews"
    provider github
    secret "secret://env/SENDER"
    event "pull_request.opened"
}
webhook any { path "/hooks/any", provider github, secret "secret://env/SENDER", agent notes }
webhook payments { path "/hooks/payments", provider stripe, secret "secret://env/SENDER" }
webhook issues { path "/hooks/issues", provider linear, secret "secret://env/SENDER" }
webhook own {
    path "/hooks/own"
    provider custom
    secret "secret://env/SENDER"
    filter { json_path "$.a" exists true }
}
webhook office { path "/hooks/office", provider microsoft-graph, secret "secret://env/SENDER" }
webhook subjects { path "/hooks/subjects", provider github, secret "secret://env/SENDER", agent keyed }
agent notes { instruction "Remember." }
agent keyed {
    instruction "Answer."
    model openai { url "http://127.0.0.1:9/v1" model "none" }
    thread keyed { json_path "$.issue" }
}
"""
UNREADABLE = [b'{"a":1', b"", b"<a/>", b'{"a":"\xff"}', b"NaN"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("daemon")
    write_program(root, PROGRAM)
    with running(root, "program", SENDER=SECRET) as started:
        yield started


def send(daemon: Daemon, webhook: str, provider: str, body: bytes, *, event: str = "push", number: str = "1") -> Answer:
    headers = sign(provider, SECRET, body, now=time.time(), delivery_id=f"{webhook}-{number}", event=event)
    return daemon.request("POST", f"/hooks/{webhook}", body, headers)


def rows_of(daemon: Daemon, webhook: str) -> list[dict[str, str]]:
    return [row for row in daemon.attempts("--limit", "1000") if row["webhook"] == webhook]


def test_a_text_cut_inside_a_character_loses_no_delivery(daemon: Daemon) -> None:
    body = rb'{"action":"opened","pull_request":{"title":"Party \ud83d"}}'
    assert send(daemon, "reviews", "github", body, event="pull_request").status == 202
    assert send(daemon, "own", "custom", rb'{"a":"\ud83e"}').status == 202
    now = b"%d" % (time.time() * 1000)
    issue = rb'{"type":"Comment","data":{"body":"\ud83d"},"webhookTimestamp":' + now + b"}"
    assert send(daemon, "issues", "linear", issue).status == 200  # its sender takes nothing else


@pytest.mark.parametrize(
    "more",
    [rb'"text":"\ud83d"', rb'"\udc00":1', b'"n":1e400', b'"n":' + b"9" * 5000],
    ids=["text", "key", "1e400", "digits"],
)
def test_a_retry_of_a_delivery_is_one_delivery_whatever_else_is_in_it(daemon: Daemon, more: bytes) -> None:
    body = b'{"id":"evt_%b","type":"invoice.paid",%b}' % (more[:8].hex().encode(), more)
    first, again = (send(daemon, "payments", "stripe", body) for _ in range(2))
    assert (first.status, again.status) == (202, 202)
    assert first.json() == again.json()


def test_a_byte_order_mark_is_skipped_and_signed(daemon: Daemon) -> None:
    assert (
        send(daemon, "reviews", "github", MARK + b'{"action":"opened"}', event="pull_request", number="2").status == 202
    )
    assert send(daemon, "own", "custom", MARK + b'{"a":1}').status == 202
    first, again = (send(daemon, "payments", "stripe", MARK + b'{"id":"evt_mark","type":"x"}') for _ in range(2))
    assert first.json() == again.json()
    value = json.dumps({"value": [{"changeType": "updated", "clientState": SECRET}]}).encode()
    assert daemon.request("POST", "/hooks/office", MARK + value).status == 202
    # The signature is that of the raw bytes.
    headers = sign("custom", SECRET, b'{"a":1}', now=time.time(), delivery_id="unsigned-mark")
    assert daemon.request("POST", "/hooks/own", MARK + b'{"a":1}', headers).status == 401


@pytest.mark.parametrize("body", UNREADABLE)
@pytest.mark.parametrize(
    ("webhook", "provider"),
    [("reviews", "github"), ("payments", "stripe"), ("own", "custom"), ("subjects", "github")],
)
def test_a_body_that_decides_and_cannot_be_decoded_is_refused_with_the_reason(
    daemon: Daemon, webhook: str, provider: str, body: bytes
) -> None:
    answer = send(daemon, webhook, provider, body, event="pull_request", number=body.hex())
    assert (answer.status, answer.json()["error"]) == (400, "invalid_json")
    until(lambda: "invalid_json" in {row["reason"] for row in rows_of(daemon, webhook)}, what="the row")


def test_a_webhook_that_reads_nothing_from_its_bodies_accepts_them_and_the_memory_says_why_it_has_no_facts(
    daemon: Daemon,
) -> None:
    assert send(daemon, "any", "github", b"<a/>").status == 202
    assert send(daemon, "any", "github", rb'{"ref":"refs/heads/\ud83d"}', number="2").status == 202

    def entries() -> str:
        return "".join(file.read_text() for file in daemon.root.glob("**/*.md"))

    until(lambda: "- note: the body is not JSON" in entries(), what="the first entry")
    until(lambda: "refs/heads/\ufffd" in entries(), what="the second entry")


def test_explain_decides_as_the_daemon_does(daemon: Daemon) -> None:
    def refused(name: str, payload: str) -> object:
        done = daemon.symbi("webhook", "test", name, "--payload", payload, "--explain", "--json")
        assert done.returncode in {0, 1}, done.stderr
        return json.loads(done.stdout)["refused"]

    assert refused("own", r'{"a":"\ud83d"}') is None
    assert refused("own", "\ufeff" + '{"a":1e400}') is None
    assert refused("payments", r'{"id":"evt_\ud83d"}') == "malformed_delivery_id"
    assert refused("subjects", '{"a":1,"a":2}') == "duplicate_key"
    done = daemon.symbi("webhook", "test", "own", "--payload", '{"a":', "--explain")
    assert "--payload is not JSON: expecting value (line 1, column 6)" in done.stderr


@pytest.mark.parametrize("query", ["validationToken=abc", "validationtoken=abc", "VALIDATIONTOKEN=abc"])
def test_the_name_of_a_validation_token_may_be_in_lower_case(daemon: Daemon, query: str) -> None:
    answer = daemon.request("POST", f"/hooks/office?{query}", b"")
    assert (answer.status, answer.body) == (200, b"abc")


@pytest.mark.parametrize("query", ["validationtoken=abc&validationToken=abc", "token=abc"])
def test_no_other_query_is_echoed(daemon: Daemon, query: str) -> None:
    assert daemon.request("POST", f"/hooks/office?{query}", b"").status >= 400


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("/hooks/own/", "/hooks/own"),
        ("//hooks//own", "/hooks/own"),
        ("/Hooks/OWN", "/hooks/own"),
        ("/hooks/%6fwn", "/hooks/own"),
        ("/elsewhere", None),
        ("/" + "x" * 500, None),
    ],
)
def test_the_path_that_no_webhook_has_is_in_the_row_with_the_one_that_was_meant(
    daemon: Daemon, path: str, near: str | None
) -> None:
    assert daemon.request("POST", path, b"{}").status == 404
    row = next(row for row in reversed(daemon.attempts("--reason", "not_found")) if row["path"] == path[:200])
    assert (row["near_path"], row["headers"]) == (near, [["content-length", "2"]])
    shown = daemon.symbi("webhook", "logs", "--reason", "not_found").stdout
    assert path[:40] in shown
    assert near is None or f"did you mean {near}?" in shown


def test_the_path_of_a_wrong_method_is_in_the_row(daemon: Daemon) -> None:
    assert daemon.request("PUT", "/hooks/own", b"{}").status == 405
    row = daemon.attempts("--reason", "method_not_allowed")[-1]
    assert (row["path"], row["near_path"]) == ("/hooks/own", None)
