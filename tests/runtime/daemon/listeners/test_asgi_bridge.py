"""An ASGI application behind the operators' listener."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from aiohttp import web

from runtime.daemon.listeners.asgi_bridge import bridged
from runtime.daemon.listeners.sockets import Runner, listen

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


async def test_an_application_is_told_that_its_client_has_left() -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def wait(_scope: Any, receive: Any, _send: Any) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            told.put_nowait(message["type"])
        told.put_nowait(message["type"])

    async def handle(request: web.Request) -> web.StreamResponse:
        return await bridged(wait, request, {}, body_seconds=60)

    application = web.Application()
    application.router.add_post("/", handle)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with listen(Runner(application, shutdown_timeout=1), listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(REQUEST)
            assert await asyncio.wait_for(told.get(), 20) == "http.request"
            writer.close()
            async with asyncio.timeout(20):
                while await told.get() != "http.disconnect":
                    pass
