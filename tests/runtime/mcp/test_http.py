"""`/mcp` of a real daemon: permissions, the visible tools, and the limits of clients."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from runtime.daemon.listeners import mcp_endpoint as over
from runtime.search.embedding.remote import QUESTION_SECONDS
from tests.lanes import LONG
from tests.runtime.daemon.running import Answer, Daemon, running
from tests.runtime.daemon.v1 import make_token
from tests.runtime.mcp.connected import over_http
from tests.runtime.mcp.slow_model import SlowModel, slow_model
from tests.runtime.mcp.test_promises import PROGRAM

HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


@pytest.fixture(scope="module")
def model() -> Iterator[SlowModel]:
    with slow_model() as running_model:
        yield running_model


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, model: SlowModel) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("root")
    (root / "notes.symbiont").write_text(PROGRAM.format(url=model.url))
    with running(root, "notes.symbiont", SYMBIONT_PUBLIC_URL="https://memory.example.com") as started:
        yield started


@pytest.fixture(scope="module")
def token(daemon: Daemon) -> str:
    return make_token(daemon, "--label", "writer", "--scope", "write")


def post(
    daemon: Daemon,
    message: Any,
    token: str | None,
    *more: tuple[str, str],
    method: str = "POST",
    host: str | None = None,
) -> Answer:
    """Send one request to `/mcp` as a client with the handshake does."""
    headers = [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json"), *more]
    if token is not None:
        headers.append(("Authorization", f"Bearer {token}"))
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    if host is None:
        return daemon.request(method, "/mcp", body, headers, to="admin")
    address, _, port = daemon.addresses["admin"].rpartition(":")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    hosts = f"Host: {host}\r\n" if host else ""
    with socket.create_connection((address, int(port)), timeout=30) as link:
        head = f"{method} /mcp HTTP/1.1\r\n{hosts}{lines}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        link.sendall(head.encode() + body)
        answer = b"".join(iter(lambda: link.recv(65536), b""))
    return Answer(int(answer.split(b" ", 2)[1]), {}, answer.partition(b"\r\n\r\n")[2])


def begin(daemon: Daemon, token: str) -> str:
    """Return the id of a new session."""
    answer = post(daemon, HANDSHAKE, token)
    assert answer.status == 200
    return answer.headers["mcp-session-id"]


@pytest.mark.parametrize("sent", [None, "symbi_nothing", "x y"])
def test_who_has_no_good_token_is_told_to_bring_one_and_nothing_else(daemon: Daemon, sent: str | None) -> None:
    answer = post(daemon, HANDSHAKE, sent)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith('Bearer realm="symbiont"')
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Origin", "https://evil.example", 403),
        ("Origin", "null", 403),
        ("Origin", "http://127.0.0.1.evil.example", 403),
        ("Origin", "http://memory.example.com", 403),
        ("Origin", "https://memory.example.com:444", 403),
        ("Origin", "https://memory.example.com", 200),
        ("Origin", "http://localhost:3000", 200),
        ("Origin", "http://[::1]:3000", 200),
        ("Host", "evil.example", 421),
        ("Host", "127.0.0.1.evil.example:8081", 421),
        ("Host", "", 421),
        ("Host", "memory.example.com", 200),
        ("Host", "localhost:9000", 200),
        ("Host", "[::1]:8081", 200),
    ],
)
def test_a_page_cannot_have_a_browser_ask_under_another_name(
    daemon: Daemon, token: str, header: str, value: str, status: int
) -> None:
    if header == "Host":
        answer = post(daemon, HANDSHAKE, token, host=value)
        # Without a Host header it is not a valid HTTP/1.1 request.
        assert answer.status == status or (not value and answer.status == 400)
    else:
        assert post(daemon, HANDSHAKE, token, (header, value)).status == status


def test_a_strange_page_is_refused_before_its_token_is_looked_at(daemon: Daemon) -> None:
    assert post(daemon, HANDSHAKE, None, ("Origin", "https://evil.example")).status == 403


def test_a_session_is_of_the_token_that_made_it(daemon: Daemon, token: str) -> None:
    session = begin(daemon, token)
    other = make_token(daemon, "--label", "another", "--scope", "write")
    assert post(daemon, LIST, token, ("Mcp-Session-Id", session)).status == 200
    assert post(daemon, LIST, other, ("Mcp-Session-Id", session)).status == 404
    assert post(daemon, b"", other, ("Mcp-Session-Id", session), method="DELETE").status == 404
    assert post(daemon, b"", token, ("Mcp-Session-Id", session), method="DELETE").status == 200
    assert post(daemon, LIST, token, ("Mcp-Session-Id", session)).status == 404


def test_no_token_takes_the_sessions_of_the_others(daemon: Daemon) -> None:
    greedy, other = (make_token(daemon, "--label", name) for name in ("greedy", "other"))
    sessions = [begin(daemon, greedy) for _ in range(over.SESSIONS_OF_ONE)]
    theirs = begin(daemon, other)
    assert post(daemon, LIST, greedy, ("Mcp-Session-Id", sessions[0])).status == 200
    sessions += [begin(daemon, greedy) for _ in range(20)]
    # The first one was used meanwhile.
    ended, kept = sessions[1:21], [sessions[0], *sessions[21:]]
    assert {post(daemon, LIST, greedy, ("Mcp-Session-Id", session)).status for session in ended} == {404}
    assert post(daemon, LIST, other, ("Mcp-Session-Id", theirs)).status == 200
    for session in kept:
        assert post(daemon, b"", greedy, ("Mcp-Session-Id", session), method="DELETE").status == 200
    assert post(daemon, LIST, greedy, ("Mcp-Session-Id", begin(daemon, greedy))).status == 200


def test_a_revoked_token_ends_at_once_and_with_it_what_it_had_under_way(daemon: Daemon, model: SlowModel) -> None:
    made = make_token(daemon, "--label", "soon gone", "--scope", "write")
    with over_http(daemon, made, mode="legacy") as connected:
        connected.content("push", text="There is something.", collection="slow")

        async def revoked(client: Any) -> None:
            asked = {"query_text": "wait for ever", "collection": "slow"}
            began = time.monotonic()
            call = asyncio.ensure_future(client.call_tool("search", asked))
            assert await asyncio.to_thread(model.asked.acquire, timeout=60)
            assert (await asyncio.to_thread(daemon.symbi, "token", "revoke", made)).returncode == 0
            in_time = time.monotonic() - began < QUESTION_SECONDS
            assert await asyncio.to_thread(model.left.acquire, timeout=60)
            await asyncio.wait([call], timeout=60)
            # A call with its own time limit is answered.
            assert isinstance(call.exception(), MCPError) or not in_time

        connected.ask(revoked)
        assert post(daemon, HANDSHAKE, made).status == 401


def test_there_is_no_stream_for_a_server_that_never_speaks_first(daemon: Daemon, token: str) -> None:
    answer = post(daemon, b"", token, ("Mcp-Session-Id", begin(daemon, token)), method="GET")
    assert (answer.status, answer.headers["allow"]) == (405, "POST, DELETE")


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{bad", 400), (b"[1, 2]", 400), (b"", 400), (b'{"jsonrpc": "2.0"}', 400), (b"\xff\xfe", 400)],
)
def test_a_body_that_is_no_message_is_refused(daemon: Daemon, token: str, body: bytes, status: int) -> None:
    answer = post(daemon, body, token, ("Mcp-Session-Id", begin(daemon, token)))
    assert answer.status == status
    assert "error" in answer.json()


def test_a_body_that_is_too_large_or_compressed_is_refused(daemon: Daemon, token: str) -> None:
    host, _, port = daemon.addresses["admin"].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as link:
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: {2**30}\r\n\r\n"
        )
        link.sendall(head.encode())
        assert link.recv(65536).startswith(b"HTTP/1.1 413 ")
    assert post(daemon, HANDSHAKE, token, ("Content-Encoding", "gzip")).status == 415


def test_a_client_that_leaves_in_the_middle_of_a_push_leaves_the_collection_whole(daemon: Daemon, token: str) -> None:
    session = begin(daemon, token)
    items = [{"text": f"Entry {number} of what was cut off."} for number in range(300)]
    message = {"jsonrpc": "2.0", "id": 3, "method": "tools/call"}
    arguments = {"items": items, "project_id": "cut off"}
    body = json.dumps(message | {"params": {"name": "push", "arguments": arguments}}).encode()
    host, _, port = daemon.addresses["admin"].rpartition(":")
    lines = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nMcp-Session-Id: {session}\r\n"
        "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=30) as link:
        link.sendall(f"{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.05)
    with over_http(daemon, token, mode="legacy") as connected:
        kept = connected.content("push", **arguments)
        assert kept["inserted"] + kept["skippedDuplicates"] == len(items)
        assert connected.content("push", **arguments)["skippedDuplicates"] == len(items)


@LONG
def test_a_stop_is_not_held_up_by_a_call_that_never_ends(
    tmp_path_factory: pytest.TempPathFactory, model: SlowModel
) -> None:
    root = tmp_path_factory.mktemp("stopping")
    (root / "notes.symbiont").write_text(PROGRAM.format(url=model.url))
    # If the stop waited for the call as it waits for deliveries, it would take an hour.
    with running(root, "notes.symbiont", SYMBIONT_DRAIN_TIMEOUT="3600s") as daemon:
        made = make_token(daemon, "--label", "long", "--scope", "write")
        with over_http(daemon, made, mode="legacy") as connected:
            connected.content("push", text="There is something.", collection="slow")

            async def stopped(client: Any) -> None:
                asked = {"query_text": "wait for ever", "collection": "slow"}
                call = asyncio.ensure_future(client.call_tool("search", asked))
                assert await asyncio.to_thread(model.asked.acquire, timeout=60)
                assert await asyncio.to_thread(daemon.stop) == 0
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)

            connected.ask(stopped)
        assert model.left.acquire(timeout=30)


def test_its_bounds_leave_room_for_others_on_the_listener() -> None:
    from runtime.daemon.listeners.sockets import OPERATORS

    assert OPERATORS.connections > over.AT_A_TIME > over.AT_A_TIME_OF_ONE
    assert over.SESSIONS > over.SESSIONS_OF_ONE
