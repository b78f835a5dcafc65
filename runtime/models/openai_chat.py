"""Chat completions of OpenAI's API (https://platform.openai.com/docs/api-reference/chat/create) as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from runtime.models.partial_reply import PartialReply, arguments_of, count
from runtime.models.request import Finish, Message, Reply, ToolSchema, Usage

_FINISHES: Final[Mapping[str, Finish]] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "calls",
    "function_call": "calls",
    "content_filter": "filtered",
}


def message_json(message: Message) -> dict[str, Any]:
    """Return a message of a request."""
    told: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "tool":
        told["tool_call_id"] = message.call_id or ""
    if message.calls:
        told["content"] = message.text or None
        told["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                # Services refuse arguments that are no JSON, also those that the model wrote.
                "function": {"name": call.name, "arguments": msgspec.json.encode(arguments_of(call)).decode()},
            }
            for call in message.calls
        ]
    return told


def tool_json(tool: ToolSchema) -> dict[str, Any]:
    """Return a tool that is offered, also in the form of Ollama."""
    told = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": told}


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameter that holds the reply to a JSON Schema.

    OpenAI itself holds a model to a schema only if it is strict, and refuses a strict one with a property that is not
    required (https://platform.openai.com/docs/guides/structured-outputs).
    """
    told = {"name": "reply", "schema": dict(schema), "strict": _is_strict(schema)}
    return {"type": "json_schema", "json_schema": told}


def _is_strict(schema: Any) -> bool:
    if isinstance(schema, list | tuple):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, Mapping):
        names = set(properties) if isinstance(properties, Mapping) else set()
        if schema.get("additionalProperties") is not False or names != set(schema.get("required", ())):
            return False
    return all(map(_is_strict, schema.values()))


class _Function(Struct):
    name: str | None = None
    arguments: Any = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Message(Struct):
    content: str | list[Any] | None = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None


class _Answer(Struct):
    choices: list[_Choice]
    usage: Any = None


class ChatReading:
    """Reads a completion, or the parts of a streamed one."""

    def __init__(self) -> None:
        self._reply = PartialReply()
        self._begun = False

    def feed(self, part: Any) -> str:
        """Take a whole completion or a part of one, decoded; return its text. Raises ValueError."""
        answer = msgspec.convert(part, _Answer)
        if isinstance(answer.usage, dict):
            self._reply.usage = _usage(answer.usage)
        # Parts without a choice have the usage, or what a filter says of the request.
        if not answer.choices:
            return ""
        self._begun = True
        choice = answer.choices[0]
        if choice.finish_reason:
            self._reply.finish = _FINISHES.get(choice.finish_reason, "stop")
        said = choice.message or choice.delta
        if said is None:
            if not choice.finish_reason:
                raise ValueError("no message")
            return ""
        return self._said(said)

    @property
    def complete(self) -> bool:
        """True if the service has said why the reply ended."""
        return self._reply.finish is not None

    def whole(self) -> Reply:
        """Return the reply of all parts. Raises ValueError if none of them was a part of a reply."""
        if not self._begun:
            raise ValueError("no choice")
        return self._reply.whole()

    def _said(self, said: _Message) -> str:
        text = said.content if isinstance(said.content, str) else _text(said.content or [])
        if said.refusal:
            text += said.refusal
            self._reply.finish = "filtered"
        self._reply.add_text(text)
        for reasoning in (said.reasoning_content, said.reasoning):
            if isinstance(reasoning, str) and reasoning:
                self._reply.add_reasoning(reasoning)
                break
        for call in said.tool_calls or ():
            function = call.function or _Function()
            self._reply.add_call(call.index, call.id, function.name, function.arguments)
        return text


def _text(parts: list[Any]) -> str:
    """Return the text of a message in parts, of which those of other types are not text."""
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _usage(told: Mapping[str, Any]) -> Usage:
    details = told.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(
        tokens_in=count(told.get("prompt_tokens")),
        tokens_out=count(told.get("completion_tokens")),
        # DeepSeek has a field of its own.
        cached=count(cached if cached is not None else told.get("prompt_cache_hit_tokens")),
    )
