"""Servers over HTTP: what is sent to whom, and what is not read, followed or called."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from aiohttp import web
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from structlog.testing import capture_logs

from runtime.outbound.http import LARGEST_ANSWER
from runtime.tool_servers import connection as connections
from runtime.tool_servers import http, session
from runtime.tool_servers.errors import CallUncertain, ServerAway, ToolFailed
from runtime.tool_servers.http import ServerClient
from tests.runtime.tool_servers.places import connection, service, until
from tests.runtime.tool_servers.raw_service import RawService, Sessions, served


@pytest.fixture(autouse=True)
def _restarts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(connections, "SETTLE_SECONDS", 0.0)


@pytest.fixture
async def raw() -> AsyncIterator[RawService]:
    async with RawService().running() as running:
        yield running


async def test_a_server_of_the_sdk_is_called_and_says_when_it_has_other_tools(tmp_path: Path) -> None:
    server = MCPServer("adder")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool()
    async def grow(context: Context) -> str:
        server.add_tool(add, name="more")
        await context.notify_tools_changed()
        return "grown"

    @server.tool()
    def fail() -> str:
        raise ToolError("no more")

    with served(server.streamable_http_app()) as address:
        async with connection(service(tmp_path, f"{address}/mcp")) as opened:
            assert (await opened.call("add", {"a": 1, "b": 2}, 60)).text == "3"
            with pytest.raises(ToolFailed, match="no more"):
                await opened.call("fail", {}, 60)
            first = opened.listing
            await opened.call("grow", {}, 60)
            await until(lambda: opened.listing is not first)
            assert opened.listing is not None
            assert [tool.name for tool in opened.listing.tools] == ["add", "grow", "fail", "more"]


async def test_headers_and_token_are_sent_to_the_server(tmp_path: Path, raw: RawService) -> None:
    headers = {"Authorization": "Bearer of-the-block", "X-Team": "core"}
    async with connection(service(tmp_path, raw.url, headers)) as opened:
        assert (await opened.call("echo", {}, 60)).text == "xxxx"
    assert {(each["authorization"], each["x-team"]) for _, each in raw.asked} == {("Bearer of-the-block", "core")}
    assert "cookie" not in str(raw.asked)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(tmp_path: Path, raw: RawService, status: int) -> None:
    async with RawService().running() as other:
        target = {0: other.url, 1: raw.url.replace("/mcp", "/other")}

        async def elsewhere(request: web.Request) -> web.Response:
            return web.Response(status=status, headers={"Location": target[status % 2]})

        raw.instead = elsewhere
        async with connection(service(tmp_path, raw.url, {"Authorization": "Bearer of-the-block"})) as opened:
            with pytest.raises(ServerAway, match=f"it answered {status}: redirects are not followed"):
                await opened.call("echo", {}, 60)
    assert other.asked == []


@pytest.mark.parametrize("tool", ["flood", "bomb"])
async def test_an_answer_without_end_is_not_read(tmp_path: Path, raw: RawService, tool: str) -> None:
    async with connection(service(tmp_path, raw.url)) as opened:
        await opened.call("echo", {}, 60)
        await RawService._called(raw, None, {"id": 1, "params": {"name": tool}})  # type: ignore[arg-type] # its memory
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises((CallUncertain, ToolFailed)):
            await opened.call(tool, {}, 60)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 * LARGEST_ANSWER // 1024
        await until(lambda: opened.connected)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    ("result", "what"),
    [
        ('{"content":[],"structuredContent":{"x":[' + "[]," * 100_000 + "[]]}}", "it has more than 50,000 values"),
        ('{"content":[],"structuredContent":{"x":' + "[" * 1000 + "]" * 1000 + "}}", "it is nested more than 500 deep"),
        ('{"content":[{"type":"text","text":"\\ud83d"}]}', ""),
        pytest.param(f'{{"content":["{"x" * LARGEST_ANSWER}"]}}', "it has more than 8 MiB", id="large"),
    ],
)
async def test_an_answer_that_cannot_be_read_ends_its_call(
    tmp_path: Path, raw: RawService, kind: str, result: str, what: str
) -> None:
    async def odd(request: web.Request) -> web.Response | None:
        ask = json.loads(await request.text() or "{}")
        if ask.get("method") != "tools/call" or ask["params"]["name"] == "echo":
            return None
        text = f'{{"result":{result},"id":{ask["id"]},"jsonrpc":"2.0"}}'
        return web.Response(text=text if kind == "application/json" else f"data: {text}\r\n\r\n", content_type=kind)

    raw.instead = odd
    async with connection(service(tmp_path, raw.url)) as opened:
        with pytest.raises(CallUncertain, match=f"sent an answer that cannot be read.*{what}"):
            await opened.call("flood", {}, 600)
        assert (await opened.call("echo", {}, 60)).text == "xxxx"
    # Other calls have the same connection.
    assert [method for method, _ in raw.asked].count("initialize") == 1


async def test_a_server_that_hangs_ends_a_call_in_time(tmp_path: Path, raw: RawService) -> None:
    async with connection(service(tmp_path, raw.url)) as opened:
        await opened.call("echo", {}, 60)
        with pytest.raises(CallUncertain, match="within 1 second"):
            await opened.call("hang", {}, 1)
        assert (await opened.call("echo", {}, 60)).text == "xxxx"


NO_SESSION = '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}'


@pytest.mark.parametrize("body", ["", NO_SESSION])
async def test_a_call_in_a_session_that_has_ended_is_made_in_a_new_one(
    tmp_path: Path, raw: RawService, body: str
) -> None:
    sessions = Sessions(body)
    raw.instead = sessions.answer
    with capture_logs() as logged:
        async with connection(service(tmp_path, raw.url)) as opened:
            await opened.call("echo", {}, 60)
            first = opened.listing
            pending = asyncio.create_task(opened.call("hang", {}, 60))
            await until(lambda: "hang" in sessions.tools)
            sessions.known.clear()
            answers = await asyncio.gather(*(opened.call("echo", {}, 60) for _ in range(3)))
            sessions.released.set()
            assert [each.text for each in (*answers, await pending)] == ["xxxx"] * 3 + ["released"]
            await until(lambda: opened.listing is not first)
            assert opened.connected
    assert (sessions.began, sessions.tools) == (2, ["echo", "hang", "echo", "echo", "echo"])
    assert not [each for each in logged if each["event"] == "mcp_server_away"]


async def test_tools_are_listed_in_a_new_session_if_theirs_has_ended(tmp_path: Path, raw: RawService) -> None:
    sessions = Sessions()
    raw.instead = sessions.answer
    with capture_logs() as logged:
        async with connection(service(tmp_path, raw.url)) as opened:
            await opened.call("echo", {}, 60)
            first = opened.listing
            sessions.known.clear()
            opened._changed.set()
            await until(lambda: opened.listing is not first)
    assert sessions.began == 2
    assert not [each for each in logged if each["event"] == "mcp_server_away"]


async def test_a_call_is_sent_once_again_and_not_for_ever(tmp_path: Path, raw: RawService) -> None:
    sessions = Sessions()
    raw.instead = sessions.answer
    async with connection(service(tmp_path, raw.url)) as opened:
        await opened.call("echo", {}, 60)
        before = len(raw.asked)
        sessions.known.clear()
        sessions.knows_new_ones = False
        with pytest.raises(ServerAway, match="service is away: it answered 404, as if its session had ended"):
            await opened.call("echo", {}, 60)
        assert [method for method, _ in raw.asked[before:]].count("tools/call") == 2
    assert sessions.tools == ["echo"]


async def test_a_service_that_is_gone_with_its_session_was_sent_nothing(tmp_path: Path, raw: RawService) -> None:
    raw.instead = Sessions().answer
    async with connection(service(tmp_path, raw.url)) as opened:
        await opened.call("echo", {}, 60)

        async def gone(_request: web.Request) -> web.Response:
            return web.Response(status=404)

        raw.instead = gone
        with pytest.raises(ServerAway, match="service is away: it answered 404"):
            await opened.call("echo", {}, 60)


async def test_a_session_that_does_not_begin_again_ends_a_call_in_time(
    tmp_path: Path, raw: RawService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "RENEWAL_SECONDS", 0.2)
    sessions = Sessions()
    raw.instead = sessions.answer
    async with connection(service(tmp_path, raw.url)) as opened:
        await opened.call("echo", {}, 60)
        sessions.known.clear()

        async def late(request: web.Request) -> web.StreamResponse | None:
            if "initialize" in await request.text() and "mcp-session-id" not in request.headers:
                await asyncio.Event().wait()
            return await sessions.answer(request)

        raw.instead = late
        with pytest.raises(ServerAway, match=r"it did not begin a new session within 0\.2 seconds"):
            await opened.call("echo", {}, 60)
    assert sessions.tools == ["echo"]


async def test_a_server_that_is_away_was_sent_nothing_and_is_found_again(tmp_path: Path) -> None:
    first = RawService()
    async with first.running():
        place, port = service(tmp_path, first.url), int(first.url.rpartition(":")[2].partition("/")[0])
        opened = connection(place)
        server = await opened.__aenter__()
        await server.call("echo", {}, 60)
    with pytest.raises(ServerAway, match=r"no connection to 127\.0\.0\.1"):
        await server.call("echo", {}, 60)
    async with RawService().running(port):
        await until(lambda: server.connected)
        assert (await server.call("echo", {}, 60)).text == "xxxx"
    await opened.__aexit__(None, None, None)


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_a_refusal_is_told_with_its_status(tmp_path: Path, raw: RawService, status: int) -> None:
    async def refused(_request: web.Request) -> web.Response:
        return web.Response(status=status)

    raw.instead = refused
    async with connection(service(tmp_path, raw.url)) as opened:
        with pytest.raises(ServerAway, match="wants a login" if status == 401 else f"it answered {status}"):
            await opened.call("echo", {}, 60)


@pytest.mark.parametrize(
    ("own", "other", "called"),
    [
        ("8.8.8.8 10.0.0.8", "10.0.0.7", False),
        ("8.8.8.8", "127.0.0.1", False),
        ("8.8.8.8", "169.254.169.254", False),
        ("8.8.8.8", "8.8.4.4", True),
        ("10.0.0.8", "10.0.0.7", True),
    ],
)
async def test_a_server_on_the_internet_names_no_address_of_this_network(
    monkeypatch: pytest.MonkeyPatch, own: str, other: str, called: bool
) -> None:
    addresses = {"mcp.example.org": own.split(), "login.example.net": [other]}

    async def resolved(host: str) -> list[str]:
        return addresses[host]

    sent: list[httpx2.Request] = []

    class Noting(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            sent.append(request)
            return httpx2.Response(200, content=b"{}", request=request)

    monkeypatch.setattr(http, "_addresses", resolved)
    client = ServerClient("https://mcp.example.org/mcp", {"Authorization": "Bearer of-the-block"}, None)
    transport = http._Transport(Noting(), client, {"Authorization": "Bearer of-the-block"})
    request = httpx2.Request("GET", "https://login.example.net/.well-known/oauth-authorization-server")
    if called:
        await transport.handle_async_request(request)
    else:
        with pytest.raises(ServerAway, match=r"refers to login\.example\.net, which is not called"):
            await transport.handle_async_request(request)
    assert len(sent) == called
    # Nothing of the block goes to another host.
    assert not any("authorization" in each.headers for each in sent)
    await client.http.aclose()


async def test_a_server_that_answered_from_the_internet_is_there_whatever_its_name_resolves_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stream:
        def get_extra_info(self, _name: str) -> tuple[str, int]:
            return "8.8.8.8", 443

    class Answering(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(401, extensions={"network_stream": Stream()}, request=request)

    async def resolved(_host: str) -> list[str]:
        return ["10.0.0.7"]

    monkeypatch.setattr(http, "_addresses", resolved)
    client = ServerClient("https://mcp.example.org/mcp", {}, None)
    transport = http._Transport(Answering(), client, {})
    await transport.handle_async_request(httpx2.Request("POST", "https://mcp.example.org/mcp"))
    with pytest.raises(ServerAway, match="not https at a public address"):
        await transport.handle_async_request(httpx2.Request("GET", "https://login.example.net/"))
    await client.http.aclose()
