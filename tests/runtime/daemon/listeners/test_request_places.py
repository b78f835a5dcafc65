"""Probes of the operators' listener, bodies on it, and an application behind it, over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import web

from runtime.api.rest.problem import Problem
from runtime.daemon.listeners.asgi_bridge import bridge
from runtime.daemon.listeners.origin_check import problem_response
from runtime.daemon.listeners.request_places import PROBE_SHARE, RequestBody, RequestPlaces
from runtime.daemon.listeners.sockets import Runner, bind, listen
from runtime.http.limits import HttpLimits
from tests.clocks import until

PLACES = 16
SLOW = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
WORK = b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"


class Listening:
    """A listener of few connections, and what its handlers wait for."""

    def __init__(self) -> None:
        self.address = ("", 0)
        self.entered = 0
        self.go_on = asyncio.Event()

    async def body(self, request: web.Request) -> web.StreamResponse:
        self.entered += 1
        body = RequestBody(request, 60)
        try:
            return web.Response(text=str(len(await body.read(10_000))))
        except Problem as problem:
            return problem_response(problem)
        finally:
            body.release()

    async def wait(self, _request: web.Request) -> web.Response:
        self.entered += 1
        await self.go_on.wait()
        return web.Response(text="at last")

    async def healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def send(self, stack: AsyncExitStack, data: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(*self.address)
        stack.callback(writer.close)
        writer.write(data)
        return reader


@pytest.fixture
async def listening() -> AsyncIterator[Listening]:
    one = Listening()
    application = web.Application(middlewares=[RequestPlaces().middleware])
    application.router.add_post("/body", one.body)
    application.router.add_get("/wait", one.wait)
    application.router.add_get("/healthz", one.healthz)
    limits = HttpLimits(connections=PLACES, all_bodies=3000)
    with bind("--admin-listen", "127.0.0.1:0") as listener:
        one.address = listener.getsockname()
        async with listen(Runner(application, limits=limits, shutdown_timeout=0.1), listener):
            yield one


async def test_bodies_that_do_not_arrive_leave_places_for_probes(listening: Listening) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(PLACES):
            await listening.send(stack, SLOW)
        await until(lambda: listening.entered >= PLACES - PLACES // PROBE_SHARE)
        for _ in range(PLACES):
            answer = await listening.send(stack, PROBE)
            assert await answer.readline() == b"HTTP/1.1 200 OK\r\n"


async def test_requests_at_work_leave_places_for_probes(listening: Listening) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(PLACES - PLACES // PROBE_SHARE):
            await listening.send(stack, WORK)
        await until(lambda: listening.entered == PLACES - PLACES // PROBE_SHARE)
        refused = await listening.send(stack, WORK)
        assert await refused.readline() == b"HTTP/1.1 503 Service Unavailable\r\n"
        answer = await listening.send(stack, PROBE)
        assert await answer.readline() == b"HTTP/1.1 200 OK\r\n"
        listening.go_on.set()


async def test_bodies_together_are_bounded(listening: Listening) -> None:
    async with AsyncExitStack() as stack:
        whole = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n" + b"x" * 1990
        first = await listening.send(stack, whole)
        await until(lambda: listening.entered == 1)
        second = await listening.send(stack, whole)
        assert await second.readline() == b"HTTP/1.1 503 Service Unavailable\r\n"
        assert not first.at_eof()


REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


async def test_an_application_is_told_that_its_client_has_left() -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def wait(_scope: Any, receive: Any, _send: Any) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            told.put_nowait(message["type"])
        told.put_nowait(message["type"])

    async def handle(request: web.Request) -> web.StreamResponse:
        return await bridge(wait, request, await request.read(), {})

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
