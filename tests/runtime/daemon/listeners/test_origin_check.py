"""The operators' listener accepts only its own host names, so that no page can make a browser call it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import each_case
from tests.runtime.daemon.running import Daemon, running, symbi, write_program
from tests.runtime.daemon.v1 import ask, make_token

PATHS = ("/v1/webhooks", "/v1", "/mcp", "/index", "/readyz", "/metrics", "/healthz", "/nothing")
WEBHOOK = 'webhook acquisition-of-acme { path "/acme", provider github, secret "secret://file/run/keys/acme" }\n'


@pytest.fixture(scope="module", params=["127.0.0.1", "0.0.0.0"])
def daemon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("site")
    write_program(root, WEBHOOK)
    with running(
        root,
        "program",
        admin_host=request.param,
        SYMBIONT_ADMIN_NAMES="metrics.internal, Symbi_1.lan",
        SYMBIONT_PUBLIC_URL="https://hooks.example.com",
    ) as started:
        yield started


def status(daemon: Daemon, path: str, *lines: str, version: str = "1.1", method: str = "GET") -> int:
    """Return the status of the response to a request with only these header lines."""
    port = int(str(daemon.addresses["admin"]).rpartition(":")[2])
    head = "\r\n".join([f"{method} {path} HTTP/{version}", *lines, "Connection: close", "", ""])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        link.sendall(head.encode())
        answer = b"".join(iter(lambda: link.recv(65536), b""))
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("path", PATHS)
def test_a_rebound_name_is_refused_on_every_path_before_anything_else(daemon: Daemon, path: str) -> None:
    for host in (
        *("evil.example", "evil.example:8081", "127.0.0.1.evil.example", "127.1", "2130706433", "0x7f000001"),
        *("localhost.evil.example", "evil.localhost", "metrics.internal.evil.example", "internal", "[::1"),
        *("a@localhost", "localhost/evil", "localhost?evil", "localhost#evil", "localhost evil"),
    ):
        assert status(daemon, path, f"Host: {host}") in {400, 421}, host
        assert status(daemon, path, f"Host: {host}", method="POST") in {400, 421}, host
    assert status(daemon, path, "Host: localhost", "Host: evil.example") in {400, 421}
    for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example", "http://203.0.113.7"):
        assert status(daemon, path, "Host: localhost", f"Origin: {origin}") == 403, origin
    assert status(daemon, path) in {400, 421}


@each_case(
    "host",
    [
        *("localhost", "localhost:8081", "LOCALHOST", "127.0.0.1", "127.0.0.1:9", "127.0.0.2", "[::1]:8081"),
        *("metrics.internal", "metrics.internal:8081", "symbi_1.lan", "hooks.example.com"),
        # Behind NAT or in a container, clients use another address than its own.
        *("192.0.2.7:8081", "[2001:db8::7]"),
    ],
)
def test_its_names_and_any_address_are_its_own(daemon: Daemon, host: str) -> None:
    assert status(daemon, "/healthz", f"Host: {host}") == 200
    assert status(daemon, "/readyz", f"Host: {host}") == 200
    assert status(daemon, "/v1/webhooks", f"Host: {host}") == 401
    assert status(daemon, "/metrics", f"Host: {host}") in {200, 401}


def test_what_looks_after_it_with_http_1_0_needs_no_host(daemon: Daemon) -> None:
    assert status(daemon, "/readyz", version="1.0") == 200
    assert status(daemon, "/readyz", "Host: evil.example", version="1.0") == 421


def test_only_who_has_a_token_is_told_what_is_wrong(daemon: Daemon) -> None:
    public = daemon.request("GET", "/readyz", to="admin")
    assert (public.status, public.json()) == (200, {"ready": True})
    token = make_token(daemon)
    told = ask(daemon, token, "GET", "/readyz")
    assert told.status == 200
    assert [row["webhook"] for row in told.json()["not_mounted"]] == ["acquisition-of-acme"]
    assert told.json() == daemon.readyz().json()
    bad = ask(daemon, f"{token[:-1]}_", "GET", "/readyz")
    assert bad.status == 401
    assert b"acme" not in bad.body


def test_a_name_that_is_none_is_refused_at_the_start(tmp_path: Path) -> None:
    write_program(tmp_path)
    for wrong in ("a b", "http://x", "x:8081", "-", "*"):
        done = symbi("up", "program", "--admin-names", wrong, root=tmp_path)
        assert done.returncode == 2
        assert "--admin-names:" in done.stderr
        assert "Traceback" not in done.stderr
