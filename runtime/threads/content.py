"""The content of messages: typed parts, stored as JSON."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import Struct

Role = Literal["user", "assistant", "tool", "system"]

MessageKind = Literal["message", "tool_call", "tool_output", "reasoning", "event"]

OutputStatus = Literal["ok", "error", "unknown"]
"""`unknown`: the call was begun, and whether it happened is not known."""


class TextPart(Struct, frozen=True, tag="text", omit_defaults=True):
    """Text of a person, an agent or the system. `metadata`: what its sender gave with it; no agent sees it."""

    text: str
    metadata: dict[str, str] | None = None


class DataPart(Struct, frozen=True, tag="data"):
    """Data from outside, such as the payload of a delivery; never an instruction."""

    title: str
    content_type: str
    text: str


class ToolCallPart(Struct, frozen=True, tag="tool_call", omit_defaults=True):
    """A call of a tool. `name`: as the model calls it. `arguments`: JSON of an object. `tool`: the tool's own name;
    empty in messages that were stored without it."""

    id: str
    name: str
    arguments: str
    tool: str = ""


class ToolOutputPart(Struct, frozen=True, tag="tool_output"):
    """What a tool returned, as the model reads it. `call_id`: the call that it answers."""

    call_id: str
    name: str
    text: str
    status: OutputStatus = "ok"


class EventPart(Struct, frozen=True, tag="event"):
    """Something that happened in the thread, such as a run that ended as `max_steps`. `text`: for a person."""

    name: str
    text: str


Part = TextPart | DataPart | ToolCallPart | ToolOutputPart | EventPart

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(tuple[Part, ...])


def encode(parts: tuple[Part, ...]) -> bytes:
    """Return the parts as JSON. Lone surrogates, which UTF-8 cannot encode, become U+FFFD."""
    try:
        return _ENCODER.encode(parts)
    except UnicodeEncodeError:
        return _ENCODER.encode([_well_formed(part) for part in parts])


def decode(content: bytes) -> tuple[Part, ...]:
    """Return the parts of the result of `encode`. Raises `msgspec.DecodeError` for anything else."""
    return _DECODER.decode(content)


def text_of(parts: tuple[Part, ...]) -> str:
    """Return the text of all parts, in paragraphs."""
    return "\n\n".join(text for part in parts if (text := _text(part)))


def _text(part: Part) -> str:
    if isinstance(part, ToolCallPart):
        return f"{part.name} {part.arguments}"
    if isinstance(part, DataPart):
        return "\n".join(each for each in (part.title, part.text) if each)
    return part.text


def _well_formed(part: Part) -> Part:
    fields = {name: getattr(part, name) for name in part.__struct_fields__}
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    changed = {name: text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for name, text in texts.items()}
    return msgspec.structs.replace(part, **changed)
