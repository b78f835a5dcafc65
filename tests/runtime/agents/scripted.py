"""A real HTTP server with the API of OpenAI that replies what a test wants, in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar

from aiohttp import web

T = TypeVar("T")

_PART = 7


class Refusal(NamedTuple):
    """An answer that is no reply. `status` 0: the connection is closed without one."""

    status: int
    explanation: str = "not now"
    more: Mapping[str, Any] = {}
    """Further fields of the error."""


Given: TypeAlias = str | int | Refusal | Mapping[str, Any]
"""The text of a reply, the status of an error with or without its explanation, or a whole choice."""
Reply: TypeAlias = Given | Callable[[Mapping[str, Any]], Given]
"""The same, or a function of the request's body that returns it. It is called in the thread of the server."""


def says(*messages: str, **calls: Mapping[str, Any]) -> str:
    """Return a reply with messages and calls, each a tool's name and its arguments."""
    return json.dumps(
        {"messages": messages, "tool_calls": [{"name": name, "args": given} for name, given in calls.items()]}
    )


def calling(*calls: tuple[str, Mapping[str, Any]], text: str = "", finish: str = "stop") -> dict[str, Any]:
    """Return a reply that calls tools by the model's own interface."""
    made = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for number, (name, given) in enumerate(calls)
    ]
    return {"message": {"role": "assistant", "content": text, "tool_calls": made}, "finish_reason": finish}


def cut_off(text: str) -> dict[str, Any]:
    """Return a reply that was cut off at `max_tokens`."""
    return {"message": {"role": "assistant", "content": text}, "finish_reason": "length"}


class ScriptedModel:
    """Returns `replies` one after the other, then the last one again. `bodies`: the requests, as received."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.bodies: list[dict[str, Any]] = []
        self.port = 0
        self.tells = True
        """False: it does not say what its replies used."""
        self.letters = 4
        """Characters of a token in the usage of its replies."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def block(self) -> str:
        """Return a block that declares it under the name `scripted`."""
        return f'model scripted {{ service openai {{ url "{self.url}" model "m" }} }}\n'

    def texts(self, number: int) -> str:
        """Return all messages of a request as one text."""
        return "\n".join(str(message["content"]) for message in self.bodies[number]["messages"])

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def _do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(60)

    async def _start(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if callable(reply):
            reply = await asyncio.to_thread(reply, body)
        if isinstance(reply, int):
            reply = Refusal(reply)
        if isinstance(reply, Refusal):
            if not reply.status:
                assert request.transport is not None
                request.transport.close()
            return web.json_response(
                {"error": {"message": reply.explanation, **reply.more}}, status=reply.status or 500
            )
        if isinstance(reply, str):
            reply = {"message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
        size = sum(len(str(message["content"])) for message in body["messages"])
        answer: dict[str, Any] = {
            "choices": [{"index": 0, **reply}],
            "usage": {"prompt_tokens": size // self.letters, "completion_tokens": len(str(reply)) // 4},
        }
        if not self.tells:
            answer["usage"] = None
        if body.get("stream"):
            return await _streamed(request, reply, answer["usage"])
        return web.json_response(answer)


async def _streamed(request: web.Request, reply: Mapping[str, Any], usage: object) -> web.StreamResponse:
    """Send a reply in parts of a few characters, then its calls, as server-sent events."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    text, calls = reply["message"]["content"] or "", reply["message"].get("tool_calls", [])
    deltas: list[dict[str, Any]] = [{"content": text[at : at + _PART]} for at in range(0, len(text), _PART)]
    deltas += [{"tool_calls": [{"index": number, **call}]} for number, call in enumerate(calls)]
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks += [
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reply["finish_reason"]}]},
        {"choices": [], "usage": usage},
    ]
    # A daemon that was killed does not read the rest.
    with suppress(ConnectionError):
        for chunk in (*map(json.dumps, chunks), "[DONE]"):
            await response.write(f"data: {chunk}\n\n".encode())
    return response
