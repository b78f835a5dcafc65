"""Requests and replies in the form of llama.cpp's server.

It is the API of OpenAI with some additions: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md,
`POST /v1/chat/completions`. A stream has `prompt_progress` while it reads the prompt (`return_progress`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

from runtime.models.request import Finish, Message, Reply, Request, ToolCall, Usage

_FINISHES: Final[dict[str, Finish]] = {"length": "length", "tool_calls": "calls"}
_BREAK: Final = "\u200b"


def as_text(control_tokens: Iterable[str]) -> Callable[[str], str]:
    """Return a function that makes control tokens in a text harmless: a zero-width space after the first character.

    The chat template marks the beginning and the end of each message by control tokens, and llama.cpp reads them in
    the text of a message too. Without this, a payload could end its message and begin one of the role `system`.
    """
    longest_first = sorted(control_tokens, key=len, reverse=True)
    if not longest_first:
        return lambda text: text
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return lambda text: pattern.sub(lambda found: found[0][0] + _BREAK + found[0][1:], text)


def body(request: Request, clean: Callable[[str], str]) -> dict[str, Any]:
    """Return the body of a streamed completion. `clean`: applied to the text of every message."""
    found: dict[str, Any] = {
        "messages": [_message(each, clean) for each in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }
    if request.stop:
        found["stop"] = list(request.stop)
    if request.schema is not None:
        found["response_format"] = {"type": "json_schema", "json_schema": {"schema": request.schema}}
    if request.tools:
        found["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in request.tools
        ]
    return found


def _message(message: Message, clean: Callable[[str], str]) -> dict[str, Any]:
    found: dict[str, Any] = {"role": message.role, "content": clean(message.text)}
    if message.calls:
        found["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": clean(call.arguments)}}
            for call in message.calls
        ]
    if message.call_id is not None:
        found["tool_call_id"] = message.call_id
    return found


class Refusal(Struct):
    """An error of the server. `type` is `exceed_context_size_error` for a request that is too long."""

    message: str = "unknown error"
    code: int = 500
    type: str = ""


class _Function(Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(Struct):
    index: int = 0
    id: str | None = None
    function: _Function = msgspec.field(default_factory=_Function)


class _Delta(Struct):
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] = []


class _Choice(Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None


class _Details(Struct):
    cached_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details = msgspec.field(default_factory=_Details)


class _Chunk(Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Refusal | None = None


class ReplyBuilder:
    """A reply, built from the chunks of a stream. `error`: what the server sent instead of the rest. `complete`: True
    after the chunk that says why the reply ended."""

    def __init__(self) -> None:
        self.error: Refusal | None = None
        self.complete = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._finish: Finish = "stop"
        self._usage = Usage()

    def add(self, chunk: object) -> str:
        """Add a chunk, and return its part of the text. Raises msgspec.ValidationError."""
        read = msgspec.convert(chunk, _Chunk)
        self.error = read.error or self.error
        if read.usage is not None:
            self._usage = Usage(
                read.usage.prompt_tokens, read.usage.completion_tokens, read.usage.prompt_tokens_details.cached_tokens
            )
        if not read.choices:
            return ""
        choice = read.choices[0]
        if choice.finish_reason is not None:
            self.complete = True
            self._finish = _FINISHES.get(choice.finish_reason, "stop")
        self._reasoning.append(choice.delta.reasoning_content or "")
        for call in choice.delta.tool_calls:
            self._add_call(call)
        text = choice.delta.content or ""
        self._text.append(text)
        return text

    def reply(self) -> Reply:
        """Return the reply of what was added."""
        calls = tuple(
            ToolCall(call.id or f"call_{index}", call.function.name or "", call.function.arguments or "")
            for index, call in sorted(self._calls.items())
        )
        return Reply(
            text="".join(self._text),
            calls=calls,
            finish=self._finish,
            usage=self._usage,
            reasoning="".join(self._reasoning),
        )

    def _add_call(self, part: _Call) -> None:
        call = self._calls.setdefault(part.index, _Call(part.index))
        call.id = call.id or part.id
        call.function.name = call.function.name or part.function.name
        call.function.arguments = (call.function.arguments or "") + (part.function.arguments or "")
