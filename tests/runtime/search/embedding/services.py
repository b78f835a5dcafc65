"""Real HTTP servers that speak the APIs of embedding services and answer what a test wants."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.runtime.outbound.https import serving as answering

DIMENSION = 12

Answer = Callable[["Service", list[str]], Awaitable[web.StreamResponse]]


def vector(text: str, dimension: int = DIMENSION) -> list[float]:
    """Return a vector that depends only on `text`; its length is not 1."""
    digest = hashlib.shake_128(text.encode()).digest(dimension)
    return [byte / 16 - 7.9 for byte in digest]


def ollama(vectors: list[list[float]]) -> dict[str, Any]:
    """Return the answer of Ollama's `/api/embed`."""
    return {"model": "m", "embeddings": vectors, "total_duration": 14143917, "load_duration": 1, "prompt_eval_count": 8}


def openai(vectors: list[list[float]]) -> dict[str, Any]:
    """Return the answer of OpenAI's `/embeddings`, the last text first."""
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(vectors)]
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    return {"object": "list", "data": data[::-1], "model": "m", "usage": usage}


SHAPES = {"ollama": ollama, "openai": openai}
PATHS = {"ollama": "/api/embed", "openai": "/v1/embeddings"}


@dataclass
class Service:
    """A running service and the requests that it got. It returns `answers` one after the other, then correct ones."""

    kind: str
    port: int = 0
    scheme: str = "http"
    answers: list[Answer] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Return the `url` for the embedding."""
        return f"{self.scheme}://localhost:{self.port}{'/v1' if self.kind == 'openai' else ''}"

    @property
    def host(self) -> str:
        return f"localhost:{self.port}"

    @property
    def inputs(self) -> list[list[str]]:
        """Return the texts of each request."""
        return [body["input"] for body in self.bodies]

    def shape(self, vectors: list[list[float]]) -> dict[str, Any]:
        """Return the response of this kind of service with `vectors`."""
        return SHAPES[self.kind](vectors)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.paths.append(request.path)
        if self.answers:
            return await self.answers.pop(0)(self, body["input"])
        if request.path != PATHS[self.kind]:
            return web.Response(status=404, text="404 page not found")
        return web.json_response(self.shape([vector(text) for text in body["input"]]))


def says(status: int, body: Any = None, *, headers: dict[str, str] | None = None) -> Answer:
    """Return a response with this status; `body` is JSON or the text itself."""

    async def answer(_service: Service, _texts: list[str]) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text, content_type="application/json", headers=headers)

    return answer


def vectors(make: Callable[[list[str]], list[Any]]) -> Answer:
    """Return a response in the format of the service with the vectors that `make` returns for the texts."""

    async def answer(service: Service, texts: list[str]) -> web.StreamResponse:
        return web.Response(text=json.dumps(service.shape(make(texts))), content_type="application/json")

    return answer


async def never(_service: Service, _texts: list[str]) -> web.StreamResponse:
    """Wait without a response until the client gives up."""
    await asyncio.Event().wait()
    raise AssertionError


@asynccontextmanager
async def serving(kind: str, tls: Any = None) -> AsyncIterator[Service]:
    """Start a service on a free local port."""
    service = Service(kind, scheme="https" if tls is not None else "http")
    async with answering(service.handle, tls) as service.port:
        yield service
