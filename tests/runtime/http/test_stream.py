"""Streamed responses, read by a real client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from runtime.daemon.listeners.sockets import Runner, bind, listen
from runtime.http.limits import HttpLimits
from runtime.http.stream import StreamSender
from tests.clocks import until

SECONDS = 30
Chunks = Callable[[], AsyncGenerator[bytes]]


class Serving:
    """A listener with only streamed responses."""

    def __init__(self, runner: Runner, url: str) -> None:
        self.runner = runner
        self.url = url
        self.ended: list[str] = []

    @classmethod
    @asynccontextmanager
    async def started(
        cls,
        chunks: Callable[[Serving], Chunks],
        *,
        limits: HttpLimits | None = None,
        heartbeat_seconds: float = 60,
        **ends: Any,
    ) -> AsyncIterator[Serving]:
        streams = StreamSender(look_seconds=0.02, heartbeat_seconds=heartbeat_seconds)

        async def handle(request: web.Request) -> web.StreamResponse:
            return await streams.send(request, web.StreamResponse(), chunks(serving)(), **ends)

        application = web.Application()
        application.router.add_get("/", handle)
        application.on_shutdown.append(streams.stop)
        runner = Runner(application, limits=limits or HttpLimits(), shutdown_timeout=SECONDS)
        with bind("--admin-listen", "127.0.0.1:0") as listener:
            host, port = listener.getsockname()
            serving = cls(runner, f"http://{host}:{port}/")
            async with listen(runner, listener):
                yield serving

    def noting(self, *chunks: bytes, wait: asyncio.Event | None = None) -> Chunks:
        """Yield these, wait, and record how it ended."""

        async def generate() -> AsyncGenerator[bytes]:
            try:
                for chunk in chunks:
                    yield chunk
                if wait is not None:
                    await wait.wait()
                self.ended.append("whole")
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise
            except GeneratorExit:
                self.ended.append("closed")
                raise

        return generate


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[aiohttp.ClientResponse]:
    async with asyncio.timeout(SECONDS), aiohttp.ClientSession() as session, session.get(url) as response:
        yield response


async def test_chunks_arrive_as_they_are_made() -> None:
    go_on = asyncio.Event()

    async def generate() -> AsyncGenerator[bytes]:
        yield b"first"
        await go_on.wait()
        yield b"second"

    async with Serving.started(lambda _: generate) as serving, reading(serving.url) as response:
        assert await response.content.readany() == b"first"
        go_on.set()
        assert await response.content.read() == b"second"


async def test_a_stream_that_is_silent_sends_heartbeats() -> None:
    go_on = asyncio.Event()
    async with (
        Serving.started(
            lambda own: own.noting(b"x", wait=go_on), heartbeat_seconds=0.05, heartbeat=b":\n\n"
        ) as serving,
        reading(serving.url) as response,
    ):
        assert await response.content.readexactly(7) == b"x:\n\n:\n\n"
        go_on.set()
        assert (await response.content.read()).strip(b":\n") == b""
    assert serving.ended == ["whole"]


async def test_no_more_is_made_than_the_client_reads() -> None:
    made = 0

    async def generate() -> AsyncGenerator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"x" * 65_536

    async with Serving.started(lambda _: generate) as serving, reading(serving.url) as response:
        await response.content.readexactly(65_536)
        seen = -1
        while seen != made:
            seen = made
            await asyncio.sleep(0.3)
        assert made < 1_000
        await response.content.readexactly(200 * 65_536)
        assert made > 200


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    async def generate() -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b"x" * 65_536
        finally:
            serving.ended.append("closed")

    limits = HttpLimits(write_seconds=0.3)
    async with Serving.started(lambda _: generate, limits=limits) as serving, reading(serving.url):
        await until(lambda: bool(serving.ended))


@pytest.mark.parametrize("chunks", [[], [b"x"]])
async def test_when_the_client_leaves_what_makes_the_chunks_is_cancelled(chunks: list[bytes]) -> None:
    never = asyncio.Event()
    begun = asyncio.Event()

    def generate(own: Serving) -> Chunks:
        async def first() -> AsyncGenerator[bytes]:
            begun.set()
            async for chunk in own.noting(*chunks, wait=never)():
                yield chunk

        return first

    async with Serving.started(generate) as serving:
        asking = asyncio.create_task(_read(serving.url))
        await asyncio.wait_for(begun.wait(), SECONDS)
        asking.cancel()
        await asyncio.wait([asking])
        await until(lambda: bool(serving.ended))
    assert serving.ended == ["cancelled"]


async def _read(url: str) -> bytes:
    async with reading(url) as response:
        return await response.read()


async def test_an_exception_in_the_middle_ends_with_a_failure_and_is_logged_once() -> None:
    with capture_logs() as logged:
        async with Serving.started(lambda _: _failing, failure=b"; it failed") as serving:
            assert await _read(serving.url) == b"begun; it failed"
    assert [line["event"] for line in logged] == ["stream_failed"]


async def _failing() -> AsyncGenerator[bytes]:
    yield b"begun"
    raise TimeoutError("a timeout of its own")


async def test_an_exception_without_a_failure_to_send_is_no_whole_answer() -> None:
    async with Serving.started(lambda _: _failing) as serving:
        with pytest.raises(aiohttp.ClientError):
            await _read(serving.url)


@pytest.mark.parametrize("stopped", [b"", b"stopped"])
async def test_a_stop_ends_a_stream_at_once(stopped: bytes) -> None:
    never = asyncio.Event()
    stopping_with = Serving.started(lambda own: own.noting(b"x", wait=never), stopped=stopped)
    async with stopping_with as serving, reading(serving.url) as response:
        assert await response.content.readexactly(1) == b"x"
        stopping: asyncio.Future[Any] = asyncio.ensure_future(serving.runner.cleanup())
        if stopped:
            assert await response.content.read() == stopped
        else:
            with pytest.raises(aiohttp.ClientError):
                await response.content.read()
        # Before the time limit of requests in progress.
        await asyncio.wait_for(stopping, SECONDS / 2)
    assert serving.ended == ["cancelled"]
