"""Many connections, and connections that never end: other clients do not wait, and deliveries are still stored."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lanes import LONG
from tests.runtime.attacks.wire import check_unharmed, connect, github_headers, request, statuses
from tests.runtime.daemon.running import BIN, Daemon, running, until, write_program

pytestmark = LONG

MANY = 5000
"""Return a number of connections above the limit: 4096 unless it is set."""

BODY = b'{"n":1}'


def open_many(daemon: Daemon, count: int, to: str, stack: ExitStack, say: bytes = b"") -> list[socket.socket]:
    links = []
    for _ in range(count):
        try:
            link = stack.enter_context(connect(daemon, to))
            link.sendall(say)
        except OSError:  # already closed: the limit was reached
            continue
        links.append(link)
    return links


def test_thousands_of_idle_connections_keep_nobody_out(daemon: Daemon) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(MANY, limit[1] - 200)
    if count < 1000:
        pytest.skip("not enough files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit[1], MANY + 1000), limit[1]))
    try:
        with ExitStack() as stack:
            assert len(open_many(daemon, count, "public", stack)) > 900
            for _ in range(5):
                assert daemon.request("POST", "/hooks/github", BODY, github_headers(BODY)).status == 202
            check_unharmed(daemon)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


@pytest.mark.parametrize("to", ["public", "admin"])
@pytest.mark.parametrize(
    "say",
    [b"", b"P", b"POST /hooks/github HTTP/1.1\r\nHost: x\r\nX-Slow: ", request("/hooks/github", b"x" * 100)[:-50]],
    ids=["silent", "a letter", "half a head", "half a body"],
)
def test_a_crowd_leaves_files_to_store_with(tmp_path: Path, to: str, say: bytes, few_files: Daemon) -> None:
    daemon = few_files
    with ExitStack() as stack:
        open_many(daemon, 400, to, stack, say)
        assert daemon.request("POST", "/hooks/github", BODY, github_headers(BODY)).status == 202
        assert daemon.readyz().status == 200
    until(lambda: daemon.request("GET", "/healthz").status == 200)
    assert "oo many open files" not in daemon.log.read_text()
    check_unharmed(daemon)


@pytest.fixture(scope="module")
def few_files(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """A daemon that may have at most 256 open files."""
    root = tmp_path_factory.mktemp("few")
    write_program(root)
    shell = ("/bin/sh", "-c", 'ulimit -n 256; exec "$0" "$@"', BIN / "symbi")
    with running(root, "program", command=shell) as started:
        yield started


def test_the_limit_of_files_is_raised_where_that_is_allowed(tmp_path: Path) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 5000:
        pytest.skip("not enough files may be open")
    write_program(tmp_path)
    shell = ("/bin/sh", "-c", 'ulimit -Sn 1024; exec "$0" "$@"', BIN / "symbi")
    with running(tmp_path, "program", command=shell) as daemon:
        limits = Path(f"/proc/{daemon.process.pid}/limits")
        if limits.exists():
            soft = next(
                line.split()[3] for line in limits.read_text().splitlines() if line.startswith("Max open files")
            )
            assert int(soft) > 4096


def test_a_thousand_requests_whose_answers_nobody_reads(daemon: Daemon) -> None:
    with ExitStack() as stack:
        for to, data in (
            ("public", request("/hooks/github", BODY, github_headers(BODY))),
            ("public", request("/nothing", BODY)),
            ("admin", request("/readyz", b"", {}, "GET")),
            ("admin", request("/v1/webhooks", b"", {}, "GET")),
        ):
            link = stack.enter_context(connect(daemon, to))
            link.setblocking(False)
            try:
                link.send(data * 1000)
            except BlockingIOError:
                continue
        for _ in range(5):
            assert daemon.request("POST", "/hooks/github", BODY, github_headers(BODY)).status == 202
            assert daemon.readyz().status == 200


def test_connections_that_are_half_closed_end(daemon: Daemon) -> None:
    for to in ("public", "admin", "socket"):
        for data in (b"", b"\r\n", b"GET /", request("/hooks/github", BODY)[:-3], b"GET / HTTP/1.1\r\nHost: x\r\n"):
            with connect(daemon, to) as link:
                link.sendall(data)
                link.shutdown(socket.SHUT_WR)
                answer = b""
                while part := link.recv(65_536):
                    answer += part
                # An unknown path, or on the socket a missing root, is answered without the rest of the request.
                assert statuses(answer) in ([], [400], [404], [421] if to == "socket" else []), (to, data, answer)
