"""Real HTTP servers that speak the APIs of language models and answer what a test wants."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from aiohttp import web

from tests.runtime.models.provider_wires import PROVIDERS
from tests.runtime.models.wires import OWN, Said, Wire
from tests.runtime.outbound.https import serving as answering

WIRES = {**OWN, **PROVIDERS}
PATHS = {kind: wire.base + wire.path for kind, wire in OWN.items()}
SAID = "The deploy failed on a full disk; Ada freed it."

Answer = Callable[["Question"], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Question:
    """A request to a service. `stream`: whether a stream is asked for."""

    wire: Wire
    request: web.BaseRequest
    stream: bool = False


@dataclass
class Service:
    """A running service and the requests that it got. It returns `answers` one after the other, then `said`."""

    kind: str
    port: int = 0
    said: str = SAID
    answers: list[Answer] = field(default_factory=list)
    looks: list[Answer] = field(default_factory=list)
    """Answer the request that checks whether the service is there."""
    pages: dict[str, Answer] = field(default_factory=dict)
    """Answers at other paths."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    looked: int = 0
    connections: list[asyncio.BaseTransport] = field(default_factory=list)
    """The connection of each question."""

    @property
    def wire(self) -> Wire:
        return WIRES[self.kind]

    @property
    def url(self) -> str:
        """Return the `url` for the model."""
        return f"http://localhost:{self.port}{self.wire.base}"

    @property
    def host(self) -> str:
        return f"localhost:{self.port}"

    @property
    def prompts(self) -> list[str]:
        """Return the prompt of each request."""
        return [self.wire.asked(body) for body in self.bodies]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path, listed = self.wire.listed
        if (request.method, request.path) == ("GET", self.wire.base + path):
            self.looked += 1
            self.headers.append(dict(request.headers))
            return await self.looks.pop(0)(Question(self.wire, request)) if self.looks else web.json_response(listed)
        if (page := self.pages.get(request.path)) is not None:
            return await page(Question(self.wire, request))
        if request.method != "POST" or not request.path.startswith(self.wire.base + self.wire.path):
            return web.Response(status=404, text="404 page not found")
        assert request.transport is not None
        self.connections.append(request.transport)
        body = json.loads(await request.read())
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if self.answers else text(self.said)
        return await answer(Question(self.wire, request, self.wire.streams(request.path, body)))


def says(status: int, body: Any = None, **headers: str) -> Answer:
    """Return a response with this status; `body` is JSON or the text itself."""

    async def answer(_question: Question) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text, content_type="application/json", headers=headers)

    return answer


def text(said: str) -> Answer:
    """Return a response in the format of the service, streamed if that is asked for."""
    return speaks(Said(said))


def speaks(said: Said) -> Answer:
    """Return what a model says in the format of the service, streamed if that is asked for."""

    async def answer(question: Question) -> web.StreamResponse:
        if not question.stream:
            return web.json_response(question.wire.whole(said))
        return await _streamed(question, question.wire.parts(said))

    return answer


def refuses(status: int, explanation: str, **headers: str) -> Answer:
    """Return an error in the format of the service."""

    async def answer(question: Question) -> web.StreamResponse:
        return await says(status, question.wire.error(explanation), **headers)(question)

    return answer


def half(said: str = SAID) -> Answer:
    """Return the first half of a response, then close the connection."""

    async def answer(question: Question) -> web.StreamResponse:
        if not question.stream:
            whole = json.dumps(question.wire.whole(Said(said))).encode()
            response = web.StreamResponse(headers={"Content-Length": str(len(whole))})
            response.content_type = "application/json"
            await response.prepare(question.request)
            await response.write(whole[: len(whole) // 2])
        else:
            parts = question.wire.parts(Said(said))
            response = await _streamed(question, parts[: len(parts) // 2])
        if question.request.transport is not None:
            question.request.transport.abort()
        return response

    return answer


def stops_short(said: str = SAID) -> Answer:
    """Return a stream that ends as if it were whole, after half of its parts."""

    async def answer(question: Question) -> web.StreamResponse:
        parts = question.wire.parts(Said(said))
        return await _streamed(question, parts[: len(parts) // 2])

    return answer


def stalls(said: str = SAID) -> Answer:
    """Return half of a stream, then nothing more until the client gives up."""

    async def answer(question: Question) -> web.StreamResponse:
        parts = question.wire.parts(Said(said))
        response = await _streamed(question, parts[: len(parts) // 2])
        await asyncio.Event().wait()
        return response

    return answer


def sends(*parts: bytes) -> Answer:
    """Return a stream of these parts."""

    async def answer(question: Question) -> web.StreamResponse:
        return await _streamed(question, list(parts))

    return answer


async def endless(question: Question) -> web.StreamResponse:
    """Return a response without an end."""
    response = web.StreamResponse()
    response.content_type = question.wire.streaming if question.stream else "application/json"
    await response.prepare(question.request)
    whole = b'{"text": "' if not question.stream else question.wire.parts(Said("so"))[0]
    part = b"so " * 20_000
    if question.stream:
        part = max(question.wire.parts(Said("so" * 20_000)), key=len)
    await response.write(whole)
    while question.request.transport is not None:
        await response.write(part)
    return response


@cache
def _bomb() -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join([*(packer.compress(b" " * 1_000_000) for _ in range(100)), packer.flush()])


async def compressed(question: Question) -> web.StreamResponse:
    """Return a response of 100 KB that is 100 MB when it is unpacked."""
    kind = question.wire.streaming if question.stream else "application/json"
    return web.Response(body=_bomb(), content_type=kind, headers={"Content-Encoding": "gzip"})


async def never(_question: Question) -> web.StreamResponse:
    """Wait without a response until the client gives up."""
    await asyncio.Event().wait()
    raise AssertionError


async def _streamed(question: Question, parts: list[bytes]) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_type = question.wire.streaming
    await response.prepare(question.request)
    for part in parts:
        await response.write(part)
        # Each part in its own packet, as a model produces them.
        await asyncio.sleep(0)
    return response


@asynccontextmanager
async def serving(kind: str) -> AsyncIterator[Service]:
    """Start a service on a free local port."""
    service = Service(kind)
    async with answering(service.handle) as service.port:
        yield service
