"""Filters in a running daemon, and how an operator finds out why a delivery was not run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.attacks.wire import connect, github_headers, request
from tests.runtime.daemon.running import Daemon, running, symbi, write_program

PROGRAM = """\
webhook reviews {
    path     "/hooks/github"
    provider github
    secret   "secret://env/GITHUB_SECRET"
    event    ["pull_request.opened", "push"]
    filter {
        json_path "$.repository.name"
        one_of    ["api", "web"]
    }
    filter {
        any {
            filter {
                json_path "$.labels[*].name"
                matches   "^urgent"
            }
            filter {
                not {
                    json_path "$.draft"
                    equals    true
                }
            }
        }
    }
}

webhook by-header {
    path     "/hooks/header"
    provider github
    secret   "secret://env/GITHUB_SECRET"
    filter {
        header "X-Environment"
        equals "live"
    }
}

webhook searching {
    path     "/hooks/searching"
    provider github
    secret   "secret://env/GITHUB_SECRET"
    limits {
        body 8MiB
    }
    filter {
        json_path "$..labels[*].name"
        equals    "urgent"
    }
}

webhook unmounted {
    path     "/hooks/none"
    provider stripe
    secret   "secret://env/NOT_SET"
    event    "invoice"
}
"""
WANTED = {"action": "opened", "repository": {"name": "api"}, "draft": False, "labels": [{"name": "a"}, {"name": "b"}]}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("filters")
    write_program(root, PROGRAM)
    with running(root, "program") as started:
        yield started


def outcome(daemon: Daemon, number: str, body: bytes, event: str = "pull_request") -> tuple[int, str, str | None]:
    """Return the HTTP status, the status in the body, and the reason in the audit for this delivery."""
    answer = daemon.github(body, number, event=event)
    rows = [row for row in daemon.attempts("--limit", "1000") if row["provider_delivery_id"] == number]
    said = answer.json()
    return answer.status, said.get("status") or said.get("error") or "accepted", rows[-1]["reason"] if rows else None


def test_a_delivery_that_every_filter_wants_is_run(daemon: Daemon) -> None:
    assert outcome(daemon, "wanted", json.dumps(WANTED).encode())[:2] == (202, "accepted")


@pytest.mark.parametrize(
    ("change", "event", "reason"),
    [
        ({"action": "closed"}, "pull_request", "event"),
        ({}, "issues", "event"),
        ({"repository": {"name": "docs"}}, "pull_request", "filter_1"),
        ({"draft": True}, "pull_request", "filter_2"),
        ({"draft": True, "labels": []}, "push", "filter_2"),
    ],
)
def test_the_audit_says_which_filter_did_not_want_a_delivery(
    daemon: Daemon, change: dict[str, Any], event: str, reason: str
) -> None:
    number = f"{event}-{reason}-{len(json.dumps(change))}"
    assert outcome(daemon, number, json.dumps({**WANTED, **change}).encode(), event) == (200, "filtered", reason)


def test_a_body_with_a_key_twice_is_refused(daemon: Daemon) -> None:
    body = b'{"action":"opened","action":"opened","repository":{"name":"api"}}'
    assert outcome(daemon, "twice", body)[:2] == (400, "duplicate_key")


def explained(root: Path, *arguments: str, payload: Any = WANTED) -> tuple[int, Any]:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    done = symbi("webhook", "test", *arguments, "--payload", text, "--explain", "--json", root=root)
    assert done.returncode in {0, 1}, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_explain_shows_what_each_filter_finds_and_sends_nothing(daemon: Daemon) -> None:
    before = len(daemon.attempts("--limit", "1000"))
    code, said = explained(daemon.root, "reviews", "--event", "pull_request", payload={**WANTED, "draft": True})
    assert code == 1
    assert (said["event"], said["wanted"], said["refusing"]) == ("pull_request.opened", False, "filter_2")
    assert [(line["depth"], line["name"], line["values"], line["holds"]) for line in said["filters"]] == [
        (0, "event", ['"pull_request.opened"'], True),
        (0, "filter_1", ['"api"'], True),
        (0, "filter_2", [], False),
        (1, "any", [], False),
        (2, "filter", ['"a"', '"b"'], False),
        (2, "filter", [], False),
        (3, "not", ["true"], False),
    ]
    assert len(daemon.attempts("--limit", "1000")) == before


def test_explain_is_a_table_for_people(daemon: Daemon) -> None:
    done = daemon.symbi("webhook", "test", "reviews", "--payload", json.dumps(WANTED), "--explain", "--event", "push")
    assert done.returncode == 0, done.stderr
    assert "The delivery (event push.opened) would be run." in done.stdout
    assert 'json_path "$.repository.name" one_of ["api", "web"]' in done.stdout


def test_explain_takes_the_headers_that_a_sender_adds(daemon: Daemon) -> None:
    assert explained(daemon.root, "by-header")[1]["refusing"] == "filter_1"
    assert explained(daemon.root, "by-header", "--header", "X-Environment: live")[1]["wanted"]
    twice = ("--header", "x-environment: live", "--header", "X-Environment: live")
    code, said = explained(daemon.root, "by-header", *twice)
    assert (code, said["refused"]) == (1, "ambiguous_header")


def test_explain_names_what_would_be_refused(daemon: Daemon) -> None:
    code, said = explained(daemon.root, "reviews", "--event", "push", payload='{"a":1,"a":2}')
    assert (code, said["refused"], said["wanted"]) == (1, "duplicate_key", False)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nobody",), "no webhook is called 'nobody'"),
        (("reviews", "--header", "nonsense"), "is not NAME:VALUE"),
    ],
)
def test_what_cannot_be_explained_is_one_line_and_2(daemon: Daemon, arguments: tuple[str, ...], problem: str) -> None:
    done = daemon.symbi("webhook", "test", *arguments, "--payload", "{}", "--explain")
    assert done.returncode == 2
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_a_header_that_would_not_be_sent_is_not_taken(daemon: Daemon) -> None:
    done = daemon.symbi("webhook", "test", "reviews", "--payload", "{}", "--header", "X-Environment: live")
    assert (done.returncode, "--header needs --explain" in done.stderr) == (2, True)


def test_explain_needs_neither_a_daemon_nor_a_secret(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program"):
        pass
    assert explained(tmp_path, "reviews", "--event", "push")[1]["wanted"]
    code, said = explained(tmp_path, "unmounted", payload={"type": "invoice.paid", "id": "evt_1"})
    assert (code, said["event"], said["wanted"]) == (0, "invoice.paid", True)


def test_a_payload_that_takes_long_to_search_keeps_nobody_waiting(daemon: Daemon) -> None:
    body = b'{"x":[' + b",".join([b"[]"] * 2_500_000) + b"]}"
    with closing(connect(daemon)) as hostile, closing(connect(daemon)) as other:
        hostile.sendall(request("/hooks/searching", body, github_headers(body))[:-1])
        hostile.sendall(b"}")
        hostile.setblocking(False)
        answered = 0
        while True:
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert other.recv(1000).startswith(b"HTTP/1.1 200 ")
            try:
                answer = hostile.recv(1000)
            except BlockingIOError:
                answered += 1
                continue
            break
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"too_complex" in answer
    # Without that, all of them would have been answered first, or none before the other one.
    assert answered > 10
