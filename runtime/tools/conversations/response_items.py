"""Messages of threads as items of the Responses API (https://platform.openai.com/docs/api-reference/responses).

The id of an item has its kind, its thread and its place there, so that a page can begin after an item that was
deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from runtime.clock import utc
from runtime.threads.content import DataPart, EventPart, OutputStatus, Part, TextPart, ToolCallPart, ToolOutputPart
from runtime.threads.messages import Message

ITEM_ID: Final = r"^(?:msg|rs|fc|fco)_[0-9a-f]{32}_(?:0|[1-9][0-9]{0,8})_(?:0|[1-9][0-9]{0,3})$"
"""Pattern of the id of an item."""

Status = Literal["completed", "incomplete"]


class ItemPlace(NamedTuple):
    """The place of an item: its thread, the position of its message there, and its place in the message."""

    thread_id: str
    position: int
    part: int


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class InputText(_Part):
    """Text of a person, of a delivery, or of the system."""

    type: Literal["input_text"] = "input_text"
    text: str


class OutputText(_Part):
    """Text of the agent."""

    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[Any] = Field(default=[], description="Always empty.")


class ReasoningText(_Part):
    """Reasoning of the model."""

    type: Literal["reasoning_text"] = "reasoning_text"
    text: str


class _Item(BaseModel):
    model_config = ConfigDict(frozen=True)

    id: str
    status: Status
    run_id: str | None = Field(description="The run that stored it.")
    created_at: datetime


class MessageItem(_Item):
    """What somebody said: a `user`, the agent (`assistant`), or the `system`, such as how a run ended."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system"]
    content: list[InputText] | list[OutputText]
    event: str | None = Field(default=None, description="What the system tells, such as `run_cancelled`.")
    metadata: dict[str, str] = Field(default={}, description="What the sender of a chat gave with it.")


class FunctionCall(_Item):
    """A call of a tool."""

    type: Literal["function_call"] = "function_call"
    call_id: str
    name: str
    arguments: str = Field(description="The arguments, as JSON.")


class FunctionCallOutput(_Item):
    """The output of a call. `incomplete`: whether the call happened is not known."""

    type: Literal["function_call_output"] = "function_call_output"
    call_id: str
    name: str
    output: str
    outcome: OutputStatus = Field(description="Whether the call succeeded.")


class Reasoning(_Item):
    """What the model thought."""

    type: Literal["reasoning"] = "reasoning"
    summary: list[Any] = Field(default=[], description="Always empty.")
    content: list[ReasoningText]


Item = MessageItem | FunctionCall | FunctionCallOutput | Reasoning


def place_of(item_id: str) -> ItemPlace:
    """Return the place that an id in the form of `ITEM_ID` names."""
    _, thread, position, part = item_id.split("_")
    return ItemPlace(str(UUID(thread)), int(position), int(part))


def items_of(message: Message) -> Iterator[Item]:
    """Yield the items of a message, in order. Calls and outputs are an item each."""
    told = [part for part in message.parts if not isinstance(part, ToolCallPart | ToolOutputPart)]
    others = [part for part in message.parts if isinstance(part, ToolCallPart | ToolOutputPart)]
    number = 0
    if told:
        yield _message_item(message, told)
        number = 1
    for part in others:
        yield _call_item(message, part, number)
        number += 1


def _message_item(message: Message, parts: Sequence[Part]) -> Item:
    texts = [_text(part) for part in parts]
    if message.kind == "reasoning":
        return Reasoning(**_common(message, "rs", 0), content=[ReasoningText(text=text) for text in texts])
    common = _common(message, "msg", 0)
    if message.role == "assistant":
        return MessageItem(**common, role="assistant", content=[OutputText(text=text) for text in texts])
    role: Literal["user", "system"] = "user" if message.role == "user" else "system"
    metadata = next((part.metadata for part in parts if isinstance(part, TextPart) and part.metadata), {})
    event = next((part.name for part in parts if isinstance(part, EventPart)), None)
    content = [InputText(text=text) for text in texts]
    return MessageItem(**common, role=role, content=content, event=event, metadata=metadata)


def _call_item(message: Message, part: ToolCallPart | ToolOutputPart, number: int) -> Item:
    if isinstance(part, ToolCallPart):
        common = _common(message, "fc", number)
        return FunctionCall(**common, call_id=part.id, name=part.name, arguments=part.arguments)
    common = _common(message, "fco", number)
    if part.status == "unknown":
        common["status"] = "incomplete"
    return FunctionCallOutput(**common, call_id=part.call_id, name=part.name, output=part.text, outcome=part.status)


def _common(message: Message, kind: str, number: int) -> dict[str, Any]:
    return {
        "id": f"{kind}_{UUID(message.thread_id).hex}_{message.position}_{number}",
        "status": "completed",
        "run_id": message.run_id,
        "created_at": utc(message.created_at / 1000),
    }


def _text(part: Part) -> str:
    match part:
        case DataPart():
            return "\n".join(each for each in (part.title, part.text) if each)
        case TextPart() | EventPart():
            return part.text
    return ""
