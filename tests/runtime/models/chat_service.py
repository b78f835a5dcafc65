"""A real HTTP server that answers chat completions, streamed ones too, as a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.runtime.outbound.https import serving as answering

SAID = "The deploy failed on a full disk; Ada freed it."

Answer = Callable[["ChatService", web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class ChatService:
    """A running service and the requests that it got. It returns `answers` one after the other, then `SAID`."""

    port: int = 0
    answers: list[Answer] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Return the `url` for the model."""
        return f"http://localhost:{self.port}/v1"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"object": "list", "data": self.models})
        self.bodies.append(json.loads(await request.read()))
        return await (self.answers.pop(0) if self.answers else text(SAID))(self, request)


def text(said: str) -> Answer:
    """Return a complete reply."""

    async def answer(_service: ChatService, _request: web.BaseRequest) -> web.StreamResponse:
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 31, "completion_tokens": 11, "prompt_tokens_details": {"cached_tokens": 16}}
        return web.json_response({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage})

    return answer


def says(status: int, *, retry_after: str | None = None) -> Answer:
    """Return an error with this status."""

    async def answer(_service: ChatService, _request: web.BaseRequest) -> web.StreamResponse:
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        return web.json_response({"error": {"message": "said by the service"}}, status=status, headers=headers)

    return answer


def streams(*parts: str, ends: bool = True, waits: bool = False) -> Answer:
    """Return a stream of these parts; it breaks if it does not end, or waits after them until the client gives up."""

    async def answer(_service: ChatService, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for part in parts:
            chunk = {"choices": [{"index": 0, "delta": {"content": part}}]}
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        if waits:
            await asyncio.Event().wait()
        if not ends:
            assert request.transport is not None
            request.transport.abort()
            return response
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 7}}
        await response.write(f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode())
        return response

    return answer


async def never(_service: ChatService, _request: web.BaseRequest) -> web.StreamResponse:
    """Wait without an answer until the client gives up."""
    await asyncio.Event().wait()
    raise AssertionError


@asynccontextmanager
async def chat_service() -> AsyncIterator[ChatService]:
    """Start a service on a free local port."""
    service = ChatService()
    async with answering(service.handle) as service.port:
        yield service
