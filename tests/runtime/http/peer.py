"""A listener for tests, and a client that sends raw bytes to it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from runtime.http.error import HttpError
from runtime.http.limits import HttpLimits
from runtime.http.request import Request
from runtime.http.response import Response, failure
from runtime.http.server import Handler, Server

SECONDS = 60
"""Seconds that anything may take before the test fails."""

LARGEST = 1024 * 1024

Serve = Callable[..., "Serving"]


async def echo(request: Request) -> Response:
    """A handler that echoes the request, or responds with the error."""
    try:
        body = await request.read(LARGEST)
    except HttpError as problem:
        return failure(problem)
    said = {
        "method": request.head.method,
        "path": request.head.path,
        "query": request.head.query,
        "headers": list(request.head.pairs),
        "peer": request.peer,
        "body": body.decode("latin-1"),
    }
    return Response(202, "application/json", msgspec.json.encode(said))


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> str:
        """Return the code of a refusal, which always has the same form."""
        assert self.headers["content-type"] == "application/json", self
        said = self.json()
        assert set(said) == {"error", "message"}, said
        return str(said["error"])


class Peer:
    """One connection."""

    def __init__(self, address: tuple[str, int], source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(address, timeout=SECONDS, source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def try_to_send(self, data: bytes) -> None:
        """Send `data`, unless the connection has ended."""
        with suppress(ConnectionError):
            self.socket.sendall(data)

    def head(self) -> tuple[int, dict[str, str]]:
        """Return the status and headers of the next response. Raises EOFError if the connection ends first."""
        lines: list[str] = []
        while (line := self._file.readline()) != b"\r\n":
            if not line.endswith(b"\r\n"):
                raise EOFError
            lines.append(line.decode().removesuffix("\r\n"))
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        return int(lines[0].split(" ")[1]), headers

    def answer(self) -> Answer:
        """Return the next response."""
        status, headers = self.head()
        return Answer(status, headers, self._file.read(int(headers.get("content-length", "0"))))

    def ask(self, data: bytes) -> Answer:
        """Send `data` and return the next response."""
        self.send(data)
        return self.answer()

    def rest(self) -> bytes:
        """Return everything that is received before the listener closes the connection without an error."""
        return self._file.read()

    def end(self) -> None:
        """Close the sending half."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Serving:
    """A listener in its own thread."""

    server: Server
    address: tuple[str, int]
    loop: asyncio.AbstractEventLoop
    errors: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    @contextmanager
    def started(
        cls, new_loop: Callable[[], asyncio.AbstractEventLoop], handler: Handler, limits: Mapping[str, Any]
    ) -> Iterator[Serving]:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        loop = new_loop()
        given = {name: limits[name] for name in ("refuse", "behind_proxies") if name in limits}
        server = Server(
            handler, HttpLimits(**{name: each for name, each in limits.items() if name not in given}), **given
        )
        serving = cls(server, listener.getsockname(), loop)
        loop.set_exception_handler(lambda _, context: serving.errors.append(context))
        thread = threading.Thread(target=loop.run_forever, name="listener")
        thread.start()
        try:
            serving.run(server.start(listener)).result(SECONDS)
            yield serving
            serving.stop(0).result(SECONDS)
            serving.run(_settled()).result(SECONDS)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(SECONDS)
            loop.close()
            listener.close()
        assert not serving.errors, serving.errors

    def run(self, coroutine: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def stop(self, seconds: float) -> Future[None]:
        """Stop, and wait `seconds` for requests in progress."""

        async def stop() -> None:
            # When a server closes, asyncio loses the connections that it is accepting, without closing their sockets.
            await asyncio.sleep(0.02)
            await self.server.close(seconds)

        return self.run(stop())

    def connect(self, source: str = "127.0.0.1") -> Peer:
        return Peer(self.address, source)

    def ask(self, data: bytes) -> Answer:
        """Return the response to `data` on a new connection."""
        with self.connect() as peer:
            return peer.ask(data)

    def older(self, seconds: float) -> None:
        """Move the start of all bodies in progress this many seconds back."""

        async def age() -> None:
            for gathering in self.server.bodies.gathering:
                gathering.began -= seconds

        self.run(age()).result(SECONDS)

    def expired(self) -> None:
        """Make every deadline of the listener expire."""
        self.later(3600)

    def later(self, seconds: float) -> None:
        """Check the deadlines as if this many seconds had passed."""

        async def look() -> None:
            now = self.loop.time() + seconds
            for connection in list(self.server.connections):
                connection.check_deadlines(now)

        self.run(look()).result(SECONDS)


async def _settled() -> None:
    """Wait for connections that were accepted at the last moment."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)
    await asyncio.sleep(0.01)


def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true; fail if it does not become true."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.01)
