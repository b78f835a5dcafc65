"""Requests in the form of llama.cpp's server.

It is the API of OpenAI with some additions: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md,
`POST /v1/chat/completions`. A stream has `prompt_progress` while it reads the prompt (`return_progress`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from runtime.models.model import ModelRefused
from runtime.models.openai_chat import message_json, tool_json
from runtime.models.request import Request

_GRAMMAR: Final = "%llguidance {}\nstart: %json"
"""A grammar of one JSON Schema: https://github.com/ggml-org/llama.cpp/blob/master/docs/llguidance.md."""
_BREAK: Final = "\u200b"
_IN_ONE_LINE: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""White space of a reply that is held to a schema. A small model that may indent it repeats itself until it is cut off.
https://github.com/guidance-ai/llguidance/blob/main/docs/json_schema.md"""
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def text_cleaner(control_tokens: Iterable[str]) -> Callable[[str], str]:
    """Return a function that makes control tokens in a text harmless: a zero-width space after the first character.

    The chat template marks the beginning and the end of each message by control tokens, and llama.cpp reads them in
    the text of a message too. Without this, a payload could end its message and begin one of the role `system`.
    """
    longest_first = sorted(control_tokens, key=len, reverse=True)
    if not longest_first:
        return lambda text: text
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return lambda text: pattern.sub(lambda found: found[0][0] + _BREAK + found[0][1:], text)


def body(request: Request) -> dict[str, Any]:
    """Return the body of a streamed completion. Raises ModelRefused for a type that JSON does not have."""
    found: dict[str, Any] = {
        "messages": [message_json(each) for each in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        # A part for each batch of the prompt: writing it shows that nobody waits any more.
        "return_progress": True,
    }
    if request.stop:
        found["stop"] = list(request.stop)
    if request.schema is not None:
        _check_types(request.schema)
        schema = msgspec.json.encode({**request.schema, "x-guidance": _IN_ONE_LINE}).decode()
        found["grammar"] = f"{_GRAMMAR} {schema}"
    if request.tools:
        found["tools"] = [tool_json(tool) for tool in request.tools]
    if not request.reasoning:
        # Of no meaning to a chat template without such a choice.
        found["chat_template_kwargs"] = {"enable_thinking": False}
    return found


def cleaned_body(body: dict[str, Any], clean: Callable[[str], str]) -> dict[str, Any]:
    """Return the body of a completion whose texts were given to `clean`. They have an encoding: JSON from outside may
    contain half a surrogate pair."""

    def clean_text(text: str | None) -> str | None:
        return None if text is None else clean(text.encode("utf-8", "replace").decode())

    found = {**body, "messages": [{**each, "content": clean_text(each["content"])} for each in body["messages"]]}
    for message in found["messages"]:
        for call in message.get("tool_calls", ()):
            # As they are sent: an escape in the arguments could hide a control token.
            call["function"]["arguments"] = clean_text(call["function"]["arguments"])
    for tool in found.get("tools", ()):
        tool["function"]["description"] = clean_text(tool["function"]["description"])
    return found


def _check_types(schema: object) -> None:
    """Raise ModelRefused for a type that JSON does not have: llama.cpp would not hold the reply to such a schema."""
    if isinstance(schema, Mapping):
        types = schema.get("type", [])
        for each in [types] if isinstance(types, str) else types if isinstance(types, list) else []:
            if each not in _TYPES:
                raise ModelRefused(f"the model local refuses the request: JSON has no type {each!r}")
    for inner in schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list) else ():
        _check_types(inner)
