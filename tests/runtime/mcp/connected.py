"""The SDK's client, connected for a module of tests, in a thread with an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.runtime.daemon.running import BIN, Daemon, environment

T = TypeVar("T")

Mode = Literal["legacy", "auto"]
"""`legacy`: the handshake of most clients; `auto`: the revision of 2026-07-28, which has no handshake."""

SECONDS = 120


class Connected:
    """A client for tests that are not coroutines."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: Client) -> None:
        self.client = client
        self._loop = loop

    def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Return the result of `work` with the client."""

        async def asked() -> T:
            return await work(self.client)

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result(SECONDS)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool and return the result that the client gets."""
        return self.ask(lambda client: client.call_tool(name, arguments))

    def content(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool that must succeed and return its structured result."""
        result = self.call(name, **arguments)
        assert not result.is_error, result.content
        return result.structured_content


@contextmanager
def over_stdio(
    root: Path, *options: str, mode: Mode, log: Path, tools: str | None = "all,approvals", **extra: str
) -> Iterator[Connected]:
    """Yield a client that started `symbi mcp` on `root`. `tools`: the chosen groups of tools."""
    chosen = () if tools is None else ("--tools", tools)
    command = StdioServerParameters(
        command=str(BIN / "symbi"), args=["mcp", "--root", str(root), *chosen, *options], env=environment(**extra)
    )

    async def connect(stack: AsyncExitStack) -> Client:
        errors = stack.enter_context(log.open("a"))
        return await stack.enter_async_context(Client(stdio_client(command, errlog=errors), mode=mode))

    with _running(connect) as connected:
        yield connected


@contextmanager
def over_http(daemon: Daemon, token: str, *, mode: Mode, query: str = "?tools=all,approvals") -> Iterator[Connected]:
    """Yield a client of a daemon's `/mcp`. `query`: with the chosen groups of tools."""
    url = f"http://{daemon.addresses['admin']}/mcp{query}"

    async def connect(stack: AsyncExitStack) -> Client:
        headers = {"Authorization": f"Bearer {token}"}
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=SECONDS))
        return await stack.enter_async_context(Client(streamable_http_client(url, http_client=http), mode=mode))

    with _running(connect) as connected:
        yield connected


@contextmanager
def _running(connect: Callable[[AsyncExitStack], Awaitable[Client]]) -> Iterator[Connected]:
    """Keep a connection in one task of one loop, as the SDK's task groups require."""
    there: list[Connected] = []
    problem: list[BaseException] = []
    ready, end = threading.Event(), threading.Event()

    async def keep() -> None:
        try:
            async with AsyncExitStack() as stack:
                there.append(Connected(asyncio.get_running_loop(), await connect(stack)))
                ready.set()
                await asyncio.to_thread(end.wait)
        except BaseException as error:
            problem.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(keep()), name="client")
    thread.start()
    try:
        assert ready.wait(SECONDS)
        if not there:
            raise AssertionError("no connection") from problem[0]
        yield there[0]
    finally:
        end.set()
        thread.join(SECONDS)
        assert not thread.is_alive()
