"""The operators' listener over real sockets: no client holds a connection by sending or reading slowly; and the admin
socket when its path is removed."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import uvloop
from aiohttp import web

from runtime.daemon.listeners.sockets import Runner, bind, listen
from runtime.http.limits import HttpLimits
from tests.clocks import until
from tests.lanes import LONG
from tests.runtime.daemon import running

SECONDS = 60
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"x" * 32_000_000

LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def on_each_loop(scene: Callable[[], Coroutine[None, None, None]]) -> Callable[..., None]:
    """The daemon's event loop (uvloop), and asyncio's."""

    @LOOPS
    def play(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(scene())

    play.__doc__ = scene.__doc__
    return play


class Serving:
    """A listener, and the events for which its handlers wait."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.go_on = asyncio.Event()
        self.given_up = asyncio.Event()
        self.entered = 0

    @classmethod
    @asynccontextmanager
    async def started(cls, limits: HttpLimits) -> AsyncIterator[Serving]:
        with bind("--admin-listen", "127.0.0.1:0") as listener:
            serving = cls(listener.getsockname())
            application = web.Application()
            application.router.add_get("/", serving.hello)
            application.router.add_get("/large", serving.large)
            application.router.add_get("/wait", serving.wait)
            application.router.add_get("/stream", serving.stream)
            runner = Runner(application, limits=limits, shutdown_timeout=0.1)
            async with listen(runner, listener):
                yield serving

    async def hello(self, _request: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def large(self, request: web.Request) -> web.Response:
        response = web.Response(body=LARGE)
        try:
            await response.prepare(request)
            await response.write_eof()
        finally:
            self.given_up.set()
        return response

    async def wait(self, _request: web.Request) -> web.Response:
        self.entered += 1
        await self.go_on.wait()
        return web.Response(text="at last")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(5):
            await response.write(b"data: x\n\n")
            await asyncio.sleep(0.3)
        return response


class Peer:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, serving: Serving, *, window: int | None = None) -> Peer:
        link = socket.socket()
        if window is not None:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        link.setblocking(False)
        await asyncio.get_running_loop().sock_connect(link, serving.address)
        return cls(*await asyncio.open_connection(sock=link))

    async def ask(self, data: bytes = GET) -> bytes:
        """Read the head of the response."""
        self.writer.write(data)
        async with asyncio.timeout(SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = next((int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")), 0)
            await self.reader.readexactly(length)
            return head

    async def rest(self) -> bytes:
        """Read until the end of the connection."""
        data = b""
        async with asyncio.timeout(SECONDS):
            with suppress(ConnectionError):
                while part := await self.reader.read(65_536):
                    data += part
        return data

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@LONG
@on_each_loop
async def test_who_never_sends_a_whole_head_is_cut_off() -> None:
    async with Serving.started(HttpLimits(head_seconds=1, idle_seconds=60)) as serving:
        for data in (b"", b"G", b"GET / HTTP/1.1\r\nX-Slow: "):
            first, later = await Peer.to(serving), await Peer.to(serving)
            first.writer.write(data)
            assert b" 200 " in await later.ask()
            # Also on a connection that was used before, but not while it is idle.
            later.writer.write(data)
            assert (await first.rest()).startswith(b"HTTP/1.1 408 " if data else b"")
            if data:
                assert (await later.rest()).startswith(b"HTTP/1.1 408 ")
            else:
                assert b" 200 " in await later.ask()
            await first.close()
            await later.close()


@on_each_loop
async def test_a_head_that_drips_in_is_cut_off() -> None:
    async with Serving.started(HttpLimits(head_seconds=0.3)) as serving:
        peer = await Peer.to(serving)
        ended = asyncio.create_task(peer.rest())
        with suppress(ConnectionError):
            peer.writer.write(b"GET / HTTP/1.1\r\n")
            for _ in range(SECONDS * 10):
                peer.writer.write(b"X: y\r\n")
                await asyncio.wait({ended}, timeout=0.1)
                if ended.done():
                    break
        assert (await ended).startswith(b"HTTP/1.1 408 ")
        await peer.close()


@LONG
@on_each_loop
async def test_an_idle_connection_is_closed() -> None:
    async with Serving.started(HttpLimits(idle_seconds=1)) as serving:
        peer = await Peer.to(serving)
        assert b" 200 " in await peer.ask()
        assert await peer.rest() == b""
        await peer.close()


@on_each_loop
async def test_who_does_not_read_its_answer_is_cut_off() -> None:
    async with Serving.started(HttpLimits(write_seconds=0.3)) as serving:
        peer = await Peer.to(serving, window=4096)
        peer.writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(SECONDS):
            await serving.given_up.wait()
        assert len(await peer.rest()) < len(LARGE)
        await peer.close()


@on_each_loop
async def test_what_streams_may_take_its_time() -> None:
    async with Serving.started(HttpLimits(head_seconds=1, idle_seconds=0.1)) as serving:
        peer = await Peer.to(serving)
        peer.writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await peer.rest()).count(b"data: x") == 5
        await peer.close()


@on_each_loop
async def test_a_crowd_makes_room_and_what_is_handled_goes_on() -> None:
    async with Serving.started(HttpLimits(connections=2)) as serving:
        busy, idle = await Peer.to(serving), await Peer.to(serving)
        busy.writer.write(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in await idle.ask()
        await until(lambda: serving.entered == 1)
        third = await Peer.to(serving)
        third.writer.write(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await idle.rest() == b""
        await until(lambda: serving.entered == 2)
        fourth = await Peer.to(serving)
        assert (await fourth.rest()).startswith(b"HTTP/1.1 503 ")
        serving.go_on.set()
        assert b" 200 " in await busy.ask(b"")
        assert b" 200 " in await third.ask(b"")
        for peer in (busy, idle, third, fourth):
            await peer.close()


@pytest.mark.parametrize("with_folder", [True, False], ids=["its folder", "the socket"])
def test_commands_work_again_after_a_cleaner_removed_the_admin_socket(tmp_path: Path, with_folder: bool) -> None:
    program = str(running.write_program(tmp_path))
    with (
        TemporaryDirectory(dir="/tmp") as short,
        running.running(tmp_path, program, XDG_RUNTIME_DIR="", TMPDIR=short) as daemon,
    ):
        temporary = Path(short)
        first = Path(daemon.addresses["socket"])
        assert first.parent.parent == temporary
        if with_folder:
            shutil.rmtree(first.parent)
        else:
            first.unlink()
        running.until(lambda: daemon.symbi("agent", "list").returncode == 0, what="an answer to a command")
        (folder,) = temporary.iterdir()
        assert folder != first.parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert daemon.stop() == 0
        assert list(temporary.iterdir()) == []
