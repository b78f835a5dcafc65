"""Requests and replies in the form of pydantic-ai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

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

from runtime.models.partial_reply import arguments_of
from runtime.models.request import Finish, Message, Reply, Request, ToolCall, Usage

_FINISHES: Final[Mapping[str | None, Finish]] = {"length": "length", "tool_call": "calls", "content_filter": "filtered"}


def messages_of(request: Request) -> list[ModelMessage]:
    """Return the messages; those between two of the model are one request."""
    names = {call.id: call.name for message in request.messages for call in message.calls}
    told: list[ModelMessage] = []
    waiting: list[ModelRequestPart] = []
    for message in request.messages:
        if message.role == "assistant":
            if waiting:
                told.append(ModelRequest(parts=waiting))
                waiting = []
            told.append(ModelResponse(parts=_said(message)))
        else:
            waiting.append(_part(message, names))
    if waiting:
        told.append(ModelRequest(parts=waiting))
    return told


def _part(message: Message, names: Mapping[str, str]) -> ModelRequestPart:
    match message.role:
        case "system":
            return SystemPromptPart(content=message.text)
        case "tool":
            call_id = message.call_id or ""
            return ToolReturnPart(tool_name=names.get(call_id, ""), content=message.text, tool_call_id=call_id)
    return UserPromptPart(content=message.text)


def _said(message: Message) -> Sequence[ModelResponsePart]:
    text = [TextPart(content=message.text)] if message.text else []
    calls = [
        ToolCallPart(tool_name=call.name, args=dict(arguments_of(call)), tool_call_id=call.id) for call in message.calls
    ]
    return [*text, *calls]


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


def reply_of(response: ModelResponse) -> Reply:
    """Return the reply."""
    calls = tuple(
        ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=part.args_as_json_str())
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )
    finish = _FINISHES.get(response.finish_reason, "stop")
    used = response.usage
    return Reply(
        text="".join(part.content for part in response.parts if isinstance(part, TextPart)),
        calls=calls,
        finish="calls" if calls and finish == "stop" else finish,
        # The library has 0 where the provider says nothing.
        usage=Usage(
            tokens_in=used.input_tokens or None,
            tokens_out=used.output_tokens or None,
            cached=used.cache_read_tokens or None,
        ),
        reasoning="".join(part.content for part in response.parts if isinstance(part, ThinkingPart)),
    )
