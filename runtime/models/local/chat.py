"""Requests and replies in the form of llama.cpp's server.

It is the API of OpenAI with some additions: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md,
`POST /v1/chat/completions`. A stream has `prompt_progress` while it reads the prompt (`return_progress`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from runtime.models.openai_chat import ChatReading, message_json, tool_json
from runtime.models.request import Message, Reply, Request

_BREAK: Final = "\u200b"
_IN_ONE_LINE: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""White space of a reply that is held to a schema. A small model that may indent it repeats itself until it is cut off.
https://github.com/guidance-ai/llguidance/blob/main/docs/json_schema.md"""
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


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


def body(request: Request, clean: Callable[[str], str], grammar: Callable[[Mapping[str, Any]], str]) -> dict[str, Any]:
    """Return the body of a streamed completion. `clean`: applied to the texts of messages and tools. `grammar`: returns
    the grammar of a JSON schema. Raises ValueError for a type that JSON does not have."""
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
        _check_types(request.schema)
        found["grammar"] = grammar({**request.schema, "x-guidance": _IN_ONE_LINE})
    if request.tools:
        found["tools"] = [tool_json(replace(tool, description=clean(tool.description))) for tool in request.tools]
    if not request.reasoning:
        # Of no meaning to a chat template without such a choice.
        found["chat_template_kwargs"] = {"enable_thinking": False}
    return found


def _check_types(schema: object) -> None:
    """Raise ValueError for a type that JSON does not have: llama.cpp would not hold the reply to such a schema."""
    if isinstance(schema, Mapping):
        types = schema.get("type", [])
        for each in [types] if isinstance(types, str) else types if isinstance(types, list) else []:
            if each not in _TYPES:
                raise ValueError(f"JSON has no type {each!r}")
    for inner in schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list) else ():
        _check_types(inner)


def _message(message: Message, clean: Callable[[str], str]) -> dict[str, Any]:
    told = message_json(replace(message, text=clean(message.text)))
    for call in told.get("tool_calls", ()):
        # As they are sent: an escape in the arguments could hide a control token.
        call["function"]["arguments"] = clean(call["function"]["arguments"])
    return told


class Refusal(Struct):
    """An error of the server. `type` is `exceed_context_size_error` for a request that is too long."""

    message: str = "unknown error"
    code: int = 500
    type: str = ""


class ReplyBuilder:
    """A reply, built from the chunks of a stream. `error`: what the server sent instead of the rest."""

    def __init__(self) -> None:
        self.error: Refusal | None = None
        self._reading = ChatReading()

    @property
    def complete(self) -> bool:
        """True after the chunk that says why the reply ended."""
        return self._reading.complete

    def add(self, chunk: Any) -> str:
        """Add a chunk, and return its part of the text. Raises ValueError."""
        if isinstance(chunk, dict) and chunk.get("error"):
            self.error = msgspec.convert(chunk["error"], Refusal)
            return ""
        return self._reading.feed(chunk)

    def reply(self) -> Reply:
        """Return the reply of what was added."""
        return self._reading.whole()
