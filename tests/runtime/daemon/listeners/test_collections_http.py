"""Collections of a real daemon: over HTTP, over its socket, and when a client or the daemon ends in the middle."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.api.admin.protocol import ROOT_HEADER
from runtime.daemon.process.root import Root
from tests.lanes import LONG
from tests.runtime.daemon.running import Answer, Daemon, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token

PROGRAM = """\
memory notes {
    store     collection
    embedding hashing
}
"""
COUNT = 1000


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("collections-http")
    write_program(root, PROGRAM)
    with running(root, "program") as started:
        yield started


@pytest.fixture(scope="module")
def token(daemon: Daemon) -> str:
    return make_token(daemon, "--scope", "write")


def post(daemon: Daemon, token: str, path: str, **body: Any) -> Any:
    answer = ask(daemon, token, "POST", path, body)
    assert answer.status == 200, answer
    return answer.json()


def items(name: str) -> list[dict[str, str]]:
    return [{"text": f"{name} number {number}"} for number in range(COUNT)]


def counted(daemon: Daemon, token: str, name: str) -> int:
    """Return the number of items in the collection of this name."""
    rows = ask(daemon, token, "GET", "/v1/collections").json()["collections"]
    return sum(row["items"] for row in rows if row["name"] == name)


def test_the_unversioned_paths_are_the_operators_alone(daemon: Daemon, token: str) -> None:
    post(daemon, token, "/index", text="My sample document about Axum and Qdrant")
    assert post(daemon, token, "/search", query_text="axum")["hits"][0]["text"].startswith("My sample")
    for path in ("/index", "/search", "/summarize", "/v1/tools/search"):
        assert daemon.request("POST", path, b"{}").status == 404
        assert ask(daemon, None, "POST", path, {}).status == 401


def streamed(daemon: Daemon, token: str | None, path: str, body: Any) -> Answer:
    """Return the response to a client that accepts events."""
    return ask(daemon, token, "POST", path, body, [("Accept", "text/event-stream")])


def test_a_push_is_followed_by_its_events(daemon: Daemon, token: str) -> None:
    answer = streamed(daemon, token, "/index", {"items": items("streamed")})
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-store"
    found = [line.split(": ", 1) for line in answer.body.decode().splitlines() if line and not line.startswith(":")]
    names = [value for key, value in found if key == "event"]
    data = [json.loads(value) for key, value in found if key == "data"]
    assert names[-1] == "result"
    assert set(names[:-1]) <= {"progress"}
    assert data[-1]["inserted"] == COUNT
    assert all(step["total"] == COUNT for step in data[:-1])
    same = post(daemon, token, "/index", items=items("streamed"))
    assert data[-1].keys() == same.keys()


def test_what_is_refused_before_it_begins_has_its_status(daemon: Daemon, token: str) -> None:
    for sent, body, status in ((None, {}, 401), (token, {"items": 5}, 422), (token, {"items": [], "text": "x"}, 422)):
        answer = streamed(daemon, sent, "/index", body)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    # Work that is done at once has no events.
    assert "hits" in streamed(daemon, token, "/search", {"query_text": "x"}).json()


def test_a_failure_on_the_admin_socket_says_what_kind_it_is(daemon: Daemon) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(daemon.addresses["socket"])
        body = json.dumps({"parameters": {"query_text": "x", "limit": 0}}).encode()
        named = f"{ROOT_HEADER}: {Root(daemon.root).identity}"
        head = f"POST /v1/search HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{named}"
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert error["failure"] == {
        "code": "invalid_params",
        "message": "input should be greater than or equal to 1",
        "field": "limit",
        "example": {"limit": 5},
    }
    assert (error["exit_code"], "limit" in error["message"]) == (2, True)


def test_a_client_that_leaves_in_the_middle_of_its_body_pushes_nothing(daemon: Daemon, token: str) -> None:
    post(daemon, token, "/v1/collections", name="halved")
    body = json.dumps({"items": items("halved"), "collection": "halved"}).encode()
    _begin(daemon, token, body, len(body) // 2).close()
    assert counted(daemon, token, "halved") == 0


def test_a_client_that_leaves_before_the_answer_leaves_a_collection_that_is_whole(daemon: Daemon, token: str) -> None:
    post(daemon, token, "/v1/collections", name="left")
    body = json.dumps({"items": items("left"), "collection": "left"}).encode()
    connection = _begin(daemon, token, body, len(body))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    connection.close()
    again = post(daemon, token, "/index", items=items("left"), collection="left")
    assert again["inserted"] + again["skippedDuplicates"] == COUNT
    assert again["failed"] == []
    assert counted(daemon, token, "left") == COUNT


@LONG
def test_a_daemon_that_is_killed_in_a_push_keeps_whole_batches_and_the_same_push_ends_it(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        token = make_token(daemon, "--scope", "write")
        body = json.dumps({"items": items("killed")}).encode()
        with _begin(daemon, token, body, len(body)):
            until(lambda: counted(daemon, token, "notes"), what="the first batch")
            daemon.process.send_signal(signal.SIGKILL)
            daemon.process.wait()
    with running(tmp_path, "program") as daemon:
        kept = counted(daemon, token, "notes")
        assert 0 < kept <= COUNT
        again = post(daemon, token, "/index", items=items("killed"))
        assert (again["inserted"], again["skippedDuplicates"]) == (COUNT - kept, kept)
        until(lambda: _embedded(daemon, token) == COUNT, what="the vectors")
        found = post(daemon, token, "/search", query_text="killed number 77", limit=1)["hits"]
        assert found[0]["text"] == "killed number 77"


def _embedded(daemon: Daemon, token: str) -> Any:
    return ask(daemon, token, "GET", "/v1/collections/metrics").json()["collections"][0]["embedded"]


def _begin(daemon: Daemon, token: str, body: bytes, sent: int) -> socket.socket:
    """Open a connection and send this many bytes of a push on it."""
    host, _, port = str(daemon.addresses["admin"]).rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    head = (
        f"POST /index HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body[:sent])
    return connection
