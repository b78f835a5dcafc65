"""Chat completions of OpenAI's API (https://platform.openai.com/docs/api-reference/chat/create) as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from runtime.models.answers.partial_reply import NotAnswered, PartialReply, arguments_of, count
from runtime.models.request import Finish, Message, Reply, ToolSchema, Usage

_FINISHES: Final[Mapping[str, Finish]] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "calls",
    "function_call": "calls",
    "content_filter": "filtered",
    "safety": "filtered",
    "malformed_function_call": "malformed",
}
_REASONING: Final = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
"""Fields with the reasoning of a reply: of DeepSeek and others; OpenRouter and Groq; some gateways. The first that is
not empty counts, because some services say the same twice."""
_RETURNED: Final = ("reasoning_details", "thinking_blocks")
"""Lists with parts of the reasoning that are wanted back as they were, by OpenRouter and by LiteLLM."""
_GROWING: Final = ("text", "summary", "data", "thinking")
"""Fields of these parts that a stream sends in pieces."""
_OF_CALL: Final = frozenset({"index", "id", "type", "function", "name", "arguments"})
"""Fields of a call that are read. What else a service says of it, it may want back."""


def message_json(
    message: Message, *, service: str = "", extra: bool = True, reasoning: bool | None = None
) -> dict[str, Any]:
    """Return a message of a request to `service`. `extra`: it gets back what it said of calls and of their reply.
    `reasoning`: True if calls must have `reasoning_content`, False if they must not; None: if their reply had it."""
    fields: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "tool":
        fields["tool_call_id"] = message.call_id or ""
    if message.calls:
        own = [call.extra if call.extra.get("service") == service else {} for call in message.calls]
        returned = own[0].get("message", {})
        fields["content"] = message.text or None
        fields["tool_calls"] = [
            {
                **(given.get("call", {}) if extra else {}),
                "id": call.id,
                "type": "function",
                # Services refuse arguments that are no JSON, also those that the model wrote.
                "function": {"name": call.name, "arguments": msgspec.json.encode(arguments_of(call)).decode()},
            }
            for call, given in zip(message.calls, own, strict=True)
        ]
        if extra:
            fields |= {name: value for name, value in returned.items() if name != _REASONING[0]}
        if reasoning or (reasoning is None and _REASONING[0] in returned):
            # Of calls in other runs nothing is sent back, but some services refuse those without the field.
            fields[_REASONING[0]] = (message.reasoning if own[0] else "") or " "
    return fields


def tool_json(tool: ToolSchema) -> dict[str, Any]:
    """Return a tool that is offered, also in the form of Ollama."""
    fields = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": fields}


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameter that holds the reply to a JSON Schema.

    OpenAI itself holds a model to a schema only if it is strict, and refuses a strict one with a property that is not
    required (https://platform.openai.com/docs/guides/structured-outputs).
    """
    fields = {"name": "reply", "schema": dict(schema), "strict": _is_strict(schema)}
    return {"type": "json_schema", "json_schema": fields}


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


class ChatReader:
    """Reads a completion, or the parts of a streamed one. `returned`: fields of the reply that the service wants back
    with its calls; `reasoning_content` is True there, and its content the reasoning of the reply."""

    def __init__(self) -> None:
        self.returned: dict[str, Any] = {}
        self._parts = PartialReply()
        self._begun = False
        self._whole = False
        self._streamed = False

    def feed(self, part: Any) -> str:
        """Take a whole completion or a part of one, decoded; return its text. Raises ValueError."""
        if not isinstance(part, dict):
            raise ValueError("no answer")
        groq = part.get("x_groq")
        if isinstance(usage := part.get("usage") or (groq.get("usage") if isinstance(groq, dict) else None), dict):
            self._parts.usage = _usage(usage)
            self._begun = True
        # Parts without a choice have the usage, or what a filter says of the request.
        choices = part.get("choices") or []
        if not isinstance(choices, list):
            raise ValueError("no choices")
        choice = choices[0] if choices else None
        return self._read_choice(choice) if isinstance(choice, dict) else ""

    def end(self) -> None:
        """Take the mark of the end."""
        self._begun = self._whole = True

    @property
    def complete(self) -> bool:
        """True if the reply has ended: the service says why, or marks the end, or the answer was not streamed."""
        return self._whole or self._parts.finish is not None

    def reply(self) -> Reply:
        """Return the reply of all parts. Raises ValueError if none of them was a part of a reply."""
        if not self._begun:
            raise ValueError("no choice")
        return self._parts.reply()

    def _read_choice(self, choice: dict[str, Any]) -> str:
        self._begun = True
        reason = choice.get("finish_reason")
        if isinstance(reason, str | int) and reason:
            # Some add the reason of the model behind them: `function_call_filter: MALFORMED_FUNCTION_CALL`.
            words = str(reason).lower().split(": ")
            if "error" in words:
                raise NotAnswered
            self._parts.finish = next((_FINISHES[word] for word in reversed(words) if word in _FINISHES), "stop")
        part, whole = choice.get("delta"), choice.get("message")
        if isinstance(part, dict):
            self._streamed = self._streamed or bool(part)
            return self._read_message(part)
        if isinstance(whole, dict):
            self._whole = True
            # The end of some streams repeats all of it.
            return "" if self._streamed else self._read_message(whole)
        if isinstance(text := choice.get("text"), str):
            return self._parts.add_text(text)
        if part or whole or not choice.keys() & {"delta", "message", "finish_reason"}:
            raise ValueError("no message")
        return ""

    def _read_message(self, message: dict[str, Any]) -> str:
        content = message.get("content")
        if not isinstance(content, str | list | dict | None):
            raise ValueError("no text")
        text = _text(content, "text")
        if refusal := _text(message.get("refusal")):
            text += refusal
            self._parts.finish = "filtered"
        shown = self._parts.add_text(text)
        for name in _REASONING:
            if reasoning := _text(message.get(name), "text", "thinking", "content", "summary"):
                self._parts.add_reasoning(reasoning)
                if name == "reasoning_content":
                    self.returned[name] = True
                break
        else:
            self._parts.add_reasoning("" if isinstance(content, str) else _text(content, "thinking"))
        for name in _RETURNED:
            if isinstance(details := message.get(name), list):
                for each in details:
                    _add_detail(self.returned.setdefault(name, []), each, streamed=self._streamed)
        calls = message.get("tool_calls") or message.get("function_call") or []
        for call in [calls] if isinstance(calls, dict) else calls:
            self._read_call(call)
        return shown

    def _read_call(self, call: Any) -> None:
        if not isinstance(call, dict):
            raise ValueError("no call")
        # The older form has no object around the function.
        function = call.get("function") or {name: call[name] for name in ("name", "arguments") if name in call}
        if not isinstance(function, dict):
            raise ValueError("no function")
        name, arguments = function.get("name"), function.get("arguments")
        name = name if isinstance(name, str) else ""
        call_id = str(call.get("id") or "")
        extra = {key: value for key, value in call.items() if key not in _OF_CALL and value is not None}
        if self._streamed:
            self._parts.add_fragment(_number(call.get("index")), call_id, name, arguments, extra)
        else:
            self._parts.add_call(name, arguments, call_id, extra)


def _add_detail(details: list[Any], new: Any, *, streamed: bool) -> None:
    """Add a part of the reasoning, or a piece of one that was begun: a signature is that of the whole text, so pieces
    are refused."""
    same = (each for each in reversed(details) if _continues(each, new)) if streamed else iter(())
    if (begun := next(same, None)) is None:
        details.append(dict(new) if isinstance(new, dict) else new)
        return
    for key, value in new.items():
        old = begun.get(key)
        if key in _GROWING and isinstance(old, str) and isinstance(value, str):
            begun[key] = old + value
        elif value is not None:
            begun[key] = value


def _continues(begun: Any, new: Any) -> bool:
    if not (isinstance(begun, dict) and isinstance(new, dict)) or begun.get("type") != new.get("type"):
        return False
    if begun.get("id") and new.get("id") and begun["id"] != new["id"]:
        return False
    # Without a number, a signature is the end of a part.
    return begun.get("index") == new.get("index") and (new.get("index") is not None or not begun.get("signature"))


def _text(content: Any, *keys: str) -> str:
    """Return a text, or the texts of its parts with these keys; parts of other types are none."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(part, *keys) for part in content if isinstance(part, dict))
    if isinstance(content, dict):
        return next((_text(content[key], "text") for key in keys if content.get(key)), "")
    return ""


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        return int(value[:9])
    return value if isinstance(value, int) else None


def _usage(usage: Mapping[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(
        tokens_in=count(usage.get("prompt_tokens")),
        tokens_out=count(usage.get("completion_tokens")),
        # DeepSeek has a field of its own.
        cached=count(cached if cached is not None else usage.get("prompt_cache_hit_tokens")),
    )
