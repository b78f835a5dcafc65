"""Real HTTP servers that speak the APIs of language models and answer what a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

SAID = "The deploy failed on a full disk; Ada freed it."

Answer = Callable[["Service"], Awaitable[web.StreamResponse]]


def ollama(text: str) -> dict[str, Any]:
    """Return the answer of Ollama's `/api/generate`."""
    return {
        "model": "llama3.1:8b",
        "created_at": "2026-02-14T10:30:00Z",
        "response": text,
        "done": True,
        "done_reason": "stop",
        "eval_count": 11,
    }


def openai(text: str) -> dict[str, Any]:
    """Return the answer of OpenAI's `/chat/completions`."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": {"total_tokens": 9}}


SHAPES = {"ollama": ollama, "openai": openai}
PATHS = {"ollama": "/api/generate", "openai": "/v1/chat/completions"}
LISTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ollama": ("/api/tags", {"models": [{"name": "llama3.1:8b"}]}),
    "openai": ("/v1/models", {"object": "list", "data": []}),
}


@dataclass
class Service:
    """A running service and the requests that it got. It returns `answers` one after the other, then `said`."""

    kind: str
    port: int = 0
    said: str = SAID
    answers: list[Answer] = field(default_factory=list)
    looks: list[Answer] = field(default_factory=list)
    """Answer the request that checks whether the service is there."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    looked: int = 0

    @property
    def url(self) -> str:
        """Return the `url` for the model."""
        return f"http://localhost:{self.port}{'/v1' if self.kind == 'openai' else ''}"

    @property
    def host(self) -> str:
        return f"localhost:{self.port}"

    @property
    def prompts(self) -> list[str]:
        """Return the prompt of each request."""
        return [
            body["prompt"] if self.kind == "ollama" else str(body["messages"][-1]["content"]) for body in self.bodies
        ]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path, listed = LISTS[self.kind]
        if (request.method, request.path) == ("GET", path):
            self.looked += 1
            self.headers.append(dict(request.headers))
            return await self.looks.pop(0)(self) if self.looks else web.json_response(listed)
        if (request.method, request.path) != ("POST", PATHS[self.kind]):
            return web.Response(status=404, text="404 page not found")
        self.bodies.append(json.loads(await request.read()))
        self.headers.append(dict(request.headers))
        if self.answers:
            return await self.answers.pop(0)(self)
        return web.json_response(SHAPES[self.kind](self.said))


def says(status: int, body: Any = None) -> Answer:
    """Return a response with this status; `body` is JSON or the text itself."""

    async def answer(_service: Service) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text, content_type="application/json")

    return answer


def text(said: str) -> Answer:
    """Return a response in the format of the service."""

    async def answer(service: Service) -> web.StreamResponse:
        return web.json_response(SHAPES[service.kind](said))

    return answer


async def never(_service: Service) -> web.StreamResponse:
    """Wait without a response until the client gives up."""
    await asyncio.Event().wait()
    raise AssertionError


@asynccontextmanager
async def serving(kind: str) -> AsyncIterator[Service]:
    """Start a service on a free local port."""
    service = Service(kind)
    runner = web.ServerRunner(web.Server(service.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0)
    await site.start()
    service.port = runner.addresses[0][1]
    try:
        yield service
    finally:
        await runner.cleanup()
