"""The formats of services of language models: answers, whole and streamed, and what tests read in requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.models.request import Finish, ToolCall

Body = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """What a model says, without a service's format."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = "stop"
    tokens_in: int = 31
    tokens_out: int = 11
    cached: int | None = None
    reasoning: str = ""

    def words(self) -> list[str]:
        """Return the text in parts, as a stream has them."""
        return [f"{word} " for word in self.text.split(" ")[:-1]] + self.text.split(" ")[-1:]


@dataclass(frozen=True)
class Wire:
    """The API of one kind of service. `base`: what its `url` has after host and port. `path`: of questions, after it.

    `tools`, `schema`, `asked`: read a request's tools, its schema, and its last text.
    """

    path: str
    whole: Callable[[Said], Any]
    parts: Callable[[Said], list[bytes]]
    tools: Callable[[Body], list[str]]
    schema: Callable[[Body], Any]
    asked: Callable[[Body], str]
    base: str = ""
    listed: tuple[str, Any] = ("/models", {"data": []})
    streaming: str = "text/event-stream"
    streams: Callable[[str, Body], bool] = lambda _path, body: bool(body.get("stream"))
    error: Callable[[str], Any] = lambda text: {"error": {"message": text}}
    window: str = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
    """How the service explains that a request is larger than the window."""
    cached: bool = True
    """True if the service says how many tokens were cached."""
    bounded: bool = True
    """True if an answer can be left before its end, also one without an end."""
    reasons: bool = True
    """True if the service returns the reasoning separately."""


def events(*parts: Any) -> list[bytes]:
    """Return server-sent events."""
    return [f"data: {json.dumps(part)}\n\n".encode() for part in parts]


def typed_events(*parts: Mapping[str, Any]) -> list[bytes]:
    """Return server-sent events whose type is also in their data."""
    return [f"event: {part['type']}\ndata: {json.dumps(part)}\n\n".encode() for part in parts]


# OpenAI, and services with its API.

_OPENAI_FINISHES = {"stop": "stop", "length": "length", "calls": "tool_calls", "filtered": "content_filter"}


def openai_usage(said: Said) -> Body:
    usage = {"prompt_tokens": said.tokens_in, "completion_tokens": said.tokens_out, "total_tokens": 42}
    return usage if said.cached is None else {**usage, "prompt_tokens_details": {"cached_tokens": said.cached}}


def openai_calls(said: Said) -> list[Body]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in said.calls
    ]


def openai_whole(said: Said) -> Body:
    message: Body = {"role": "assistant", "content": said.text or None}
    if said.calls:
        message["tool_calls"] = openai_calls(said)
    if said.reasoning:
        message["reasoning_content"] = said.reasoning
    choice = {"index": 0, "message": message, "finish_reason": _OPENAI_FINISHES[said.finish]}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_771_065_000, "model": "m-1"}
    return {**head, "choices": [choice], "usage": openai_usage(said)}


def openai_parts(said: Said) -> list[bytes]:
    deltas: list[Body] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": said.reasoning}] if said.reasoning else []
    deltas += [{"content": word} for word in said.words() if word]
    for index, call in enumerate(openai_calls(said)):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        first = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        fragments = [{"index": index, "function": {"arguments": each}} for each in (arguments[:half], arguments[half:])]
        deltas += [{"tool_calls": [each]} for each in (first, *fragments)]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_771_065_000, "model": "m-1"}
    chunks: list[Body] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _OPENAI_FINISHES[said.finish]}]})
    chunks.append({**head, "choices": [], "usage": openai_usage(said)})
    return [*events(*chunks), b"data: [DONE]\n\n"]


OPENAI = Wire(
    base="/v1",
    path="/chat/completions",
    whole=openai_whole,
    parts=openai_parts,
    tools=lambda body: [tool["function"]["name"] for tool in body.get("tools", ())],
    schema=lambda body: body.get("response_format", {}).get("json_schema", {}).get("schema"),
    asked=lambda body: str(body["messages"][-1]["content"]),
    listed=("/models", {"object": "list", "data": []}),
)


# Ollama.


def _ollama(said: Said, message: Body, *, done: bool) -> Body:
    head = {"model": "llama3.1:8b", "created_at": "2026-02-14T10:30:00Z", "message": {"role": "assistant", **message}}
    reason = "length" if said.finish == "length" else "stop"
    end = {"done_reason": reason, "prompt_eval_count": said.tokens_in, "eval_count": said.tokens_out}
    return {**head, "done": done, **(end if done else {})}


def _ollama_calls(said: Said) -> list[Body]:
    return [{"function": {"name": call.name, "arguments": json.loads(call.arguments)}} for call in said.calls]


def ollama_whole(said: Said) -> Body:
    thinking = {"thinking": said.reasoning} if said.reasoning else {}
    calls = {"tool_calls": _ollama_calls(said)} if said.calls else {}
    return _ollama(said, {"content": said.text, **thinking, **calls}, done=True)


def ollama_parts(said: Said) -> list[bytes]:
    messages: list[Body] = [{"content": "", "thinking": said.reasoning}] if said.reasoning else []
    messages += [{"content": word} for word in said.words() if word]
    messages += [{"content": "", "tool_calls": [call]} for call in _ollama_calls(said)]
    answers = [*(_ollama(said, each, done=False) for each in messages), _ollama(said, {"content": ""}, done=True)]
    return [json.dumps(answer).encode() + b"\n" for answer in answers]


OLLAMA = Wire(
    path="/api/chat",
    whole=ollama_whole,
    parts=ollama_parts,
    tools=lambda body: [tool["function"]["name"] for tool in body.get("tools", ())],
    schema=lambda body: body.get("format"),
    asked=lambda body: str(body["messages"][-1]["content"]),
    listed=("/api/tags", {"models": [{"name": "llama3.1:8b"}]}),
    streaming="application/x-ndjson",
    error=lambda text: {"error": text},
    window="the input length exceeds the context length",
    cached=False,
)

OWN: Mapping[str, Wire] = {"ollama": OLLAMA, "openai": OPENAI}
