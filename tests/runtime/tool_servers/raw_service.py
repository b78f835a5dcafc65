"""A server of the protocol over HTTP that answers as a test wants, and one of the SDK."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from aiohttp import web

Json = dict[str, Any]
TOOLS = ("echo", "flood", "bomb", "hang")
ANSWERS: Json = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    },
    "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]},
}


class RawService:
    """Answers with JSON. `asked`: the method and the headers of each request. `instead`: answers a request otherwise,
    if it does not return None."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.instead: Callable[[web.Request], Awaitable[web.StreamResponse | None]] | None = None
        self.url = ""

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator[RawService]:
        app = web.Application(client_max_size=1 << 20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        ask = json.loads(await request.text() or "{}")
        method = ask.get("method", request.method)
        self.asked.append((method, {name.lower(): value for name, value in request.headers.items()}))
        if self.instead is not None and (other := await self.instead(request)) is not None:
            return other
        if request.method != "POST":
            return web.Response(status=405)
        if "id" not in ask:
            return web.Response(status=202)
        if method == "tools/call":
            return await self._called(request, ask)
        if method not in ANSWERS:
            error = {"code": -32601, "message": "no such method"}
            return web.json_response({"jsonrpc": "2.0", "id": ask["id"], "error": error})
        return web.json_response({"jsonrpc": "2.0", "id": ask["id"], "result": ANSWERS[method]})

    async def _called(self, request: web.Request, ask: Json) -> web.StreamResponse:
        name = ask["params"]["name"]
        size = {"flood": 50_000_000, "bomb": 50_000_000}.get(name, 4)
        if name == "hang":
            await asyncio.sleep(3600)
        head = json.dumps({"jsonrpc": "2.0", "id": ask["id"]})[:-1].encode()
        body = head + b', "result": {"content": [{"type": "text", "text": "' + b"x" * size + b'"}]}}'
        headers = {"Content-Type": "application/json"}
        if name == "bomb":
            body, headers = await asyncio.to_thread(gzip.compress, body, 1), {**headers, "Content-Encoding": "gzip"}
        return web.Response(body=body, headers=headers)


class Sessions:
    """What a service with sessions does with a request that names none of them: it answers 404. `began`: how many
    began. `tools`: the tools that were called in a session, in their order."""

    def __init__(self, body: str = "") -> None:
        self.began = 0
        self.tools: list[str] = []
        self.known: set[str] = set()
        self.knows_new_ones = True
        self.released = asyncio.Event()
        self._body = body

    async def answer(self, request: web.Request) -> web.StreamResponse | None:
        """Answer a request as `RawService.instead`. A tool `hang` is answered when it is released."""
        ask = json.loads(await request.text() or "{}")
        name = request.headers.get("mcp-session-id")
        if ask.get("method") == "initialize" and name is None:
            self.began += 1
            if self.knows_new_ones:
                self.known.add(f"s{self.began}")
            result = {"jsonrpc": "2.0", "id": ask["id"], "result": ANSWERS["initialize"]}
            return web.json_response(result, headers={"Mcp-Session-Id": f"s{self.began}"})
        if name is not None and name not in self.known:
            return web.Response(status=404, text=self._body, content_type="application/json")
        if ask.get("method") == "tools/call":
            self.tools.append(ask["params"]["name"])
            if ask["params"]["name"] == "hang":
                await self.released.wait()
                text = {"type": "text", "text": "released"}
                return web.json_response({"jsonrpc": "2.0", "id": ask["id"], "result": {"content": [text]}})
        return None


@contextmanager
def served(app: Any, port: int = 0) -> Iterator[str]:
    """Serve an ASGI application in a thread; yield its address without a path."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="critical", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(60)
