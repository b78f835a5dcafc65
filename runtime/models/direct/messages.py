"""Requests and replies in the form of pydantic-ai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from runtime.models.answers.partial_reply import NotAnswered, arguments_of
from runtime.models.request import Finish, Message, Reply, Request, ToolCall, Usage

_FINISHES: Final[Mapping[str | None, Finish]] = {"length": "length", "tool_call": "calls", "content_filter": "filtered"}
_PARTS: Final = TypeAdapter[list[Any]](list[ModelResponsePart])
_OF_PROVIDERS: Final[Mapping[str, Finish]] = {
    "MALFORMED_FUNCTION_CALL": "malformed",
    "UNEXPECTED_TOOL_CALL": "malformed",
    "malformed_tool_use": "malformed",
    "malformed_model_output": "malformed",
    "LANGUAGE": "filtered",
}
"""Reasons of an end that the library does not tell apart from other errors: of Gemini and of Bedrock."""


def messages_of(request: Request, service: str) -> list[ModelMessage]:
    """Return the messages; those between two of the model are one request. `service`: see `reply_of`."""
    names = {call.id: call.name for message in request.messages for call in message.calls}
    messages: list[ModelMessage] = []
    waiting: list[ModelRequestPart] = []
    for message in request.messages:
        if message.role == "assistant":
            if waiting:
                messages.append(ModelRequest(parts=waiting))
                waiting = []
            messages.append(ModelResponse(parts=_response_parts(message, service)))
        else:
            waiting.append(_request_part(message, names))
    if waiting:
        messages.append(ModelRequest(parts=waiting))
    return messages


def _request_part(message: Message, names: Mapping[str, str]) -> ModelRequestPart:
    match message.role:
        case "system":
            return SystemPromptPart(content=message.text)
        case "tool":
            call_id = message.call_id or ""
            return ToolReturnPart(tool_name=names.get(call_id, ""), content=message.text, tool_call_id=call_id)
    return UserPromptPart(content=message.text)


def _response_parts(message: Message, service: str) -> Sequence[ModelResponsePart]:
    text = [TextPart(content=message.text)] if message.text else []
    thoughts: list[ModelResponsePart] = []
    calls: list[ModelResponsePart] = []
    for call in message.calls:
        part = ToolCallPart(tool_name=call.name, args=dict(arguments_of(call)), tool_call_id=call.id)
        if call.extra.get("service") == service:
            *before, own = _PARTS.validate_python(call.extra["parts"])
            thoughts += before
            part = replace(own, tool_name=part.tool_name, args=part.args, tool_call_id=part.tool_call_id)
        calls.append(part)
    return [*thoughts, *text, *calls]


def parameters_of(request: Request, *, holds_schema: bool) -> ModelRequestParameters:
    """Return the tools and the schema. A request with tools has no schema: several providers refuse both at once."""
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters))
        for tool in request.tools
    ]
    if request.schema is None or tools or not holds_schema:
        return ModelRequestParameters(function_tools=tools)
    schema = OutputObjectDefinition(json_schema=dict(request.schema), name="reply")
    return ModelRequestParameters(output_mode="native", output_object=schema)


def settings_of(request: Request) -> ModelSettings:
    """Return the settings of every provider."""
    settings = ModelSettings(max_tokens=request.max_tokens, temperature=request.temperature)
    if request.stop:
        settings["stop_sequences"] = list(request.stop)
    if not request.reasoning:
        settings["thinking"] = False
    return settings


def reason_of(response: ModelResponse) -> str | None:
    """Return the reason that the provider says for the end of a reply; None before it."""
    return (response.provider_details or {}).get("finish_reason") or response.finish_reason


def reply_of(response: ModelResponse, service: str) -> Reply:
    """Return the reply. `service`: the provider and the model, which alone gets back what it says of its calls. Raises
    NotAnswered if the provider says that its answer ended with an error."""
    thoughts = [part for part in response.parts if isinstance(part, ThinkingPart)]
    calls: list[ToolCall] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            wanted = [*([] if calls else thoughts), part]
            extra: dict[str, Any] = {}
            if any(each.provider_details or getattr(each, "signature", None) for each in wanted):
                parts = _PARTS.dump_python([*wanted[:-1], replace(part, args=None)], mode="json")
                extra = {"service": service, "parts": parts}
            calls.append(ToolCall(part.tool_call_id, part.tool_name, part.args_as_json_str(), extra))
    finish = _OF_PROVIDERS.get(reason_of(response) or "", _FINISHES.get(response.finish_reason, "stop"))
    if response.finish_reason == "error" and finish == "stop":
        raise NotAnswered
    used = response.usage
    return Reply(
        text="".join(part.content for part in response.parts if isinstance(part, TextPart)),
        calls=tuple(calls),
        finish="calls" if calls and finish == "stop" else finish,
        # The library has 0 where the provider says nothing.
        usage=Usage(
            tokens_in=used.input_tokens or None,
            tokens_out=used.output_tokens or None,
            cached=used.cache_read_tokens or None,
        ),
        reasoning="".join(part.content for part in thoughts),
    )
