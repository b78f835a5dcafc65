"""The content of messages: typed parts, stored as JSON."""

from __future__ import annotations

import re
from typing import Any, Final, Literal, NamedTuple

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
    empty in messages that were stored without it. `extra`: what the model's service wants back with it."""

    id: str
    name: str
    arguments: str
    tool: str = ""
    extra: dict[str, Any] = {}


class ToolOutputPart(Struct, frozen=True, tag="tool_output"):
    """The output of a tool, as the model reads it. `call_id`: the call that it answers."""

    call_id: str
    name: str
    text: str
    status: OutputStatus = "ok"


class EventPart(Struct, frozen=True, tag="event"):
    """Something that happened in the thread, such as a run that ended as `max_steps`. `text`: for a person."""

    name: str
    text: str


Part = TextPart | DataPart | ToolCallPart | ToolOutputPart | EventPart


class Deletion(NamedTuple):
    """A deletion. `ids`: of threads and of items of memories. `messages`: thread and position of each."""

    ids: frozenset[str] = frozenset()
    messages: frozenset[tuple[str, int]] = frozenset()


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(tuple[Part, ...])


def encode(parts: tuple[Part, ...]) -> bytes:
    """Return the parts as JSON. Lone surrogates, which UTF-8 cannot encode, become U+FFFD."""
    try:
        return _ENCODER.encode(parts)
    except UnicodeEncodeError:
        return _ENCODER.encode([_well_formed_part(part) for part in parts])


def decode(content: bytes) -> tuple[Part, ...]:
    """Return the parts of the result of `encode`. Raises `msgspec.DecodeError` for anything else."""
    return _DECODER.decode(content)


def text_of(parts: tuple[Part, ...]) -> str:
    """Return the text of all parts, in paragraphs."""
    return "\n\n".join(text for part in parts if (text := _text(part)))


def ids_in(text: str) -> list[str]:
    """Return the ids that a text has."""
    return _ID.findall(text)


def without_copies(parts: tuple[Part, ...], deleted: Deletion) -> tuple[Part, ...]:
    """Return the parts with outputs of tools that no longer quote what was deleted; the same object if none does."""
    changed = tuple(
        msgspec.structs.replace(part, text=text_without(part.text, deleted))
        if isinstance(part, ToolOutputPart)
        else part
        for part in parts
    )
    return changed if changed != parts else parts


def text_without(output: str, deleted: Deletion) -> str:
    """Return the text of an output that no longer quotes what was deleted; the same text if it does not.

    An output that quotes an item or a message is JSON in which the object with the text has its id too. Of such an
    object only what names it is left, and `deleted`. An output in another form that has the id is left out whole.
    """
    ids = frozenset(ids_in(output))
    named = not ids.isdisjoint(deleted.ids)
    if not named and ids.isdisjoint(thread_id for thread_id, _ in deleted.messages):
        return output
    try:
        value = msgspec.json.decode(output)
    except msgspec.DecodeError:
        # Cut, or a line about an error. Where it has only the thread of a message, its text is not known to be there.
        return _DELETED if named or not deleted.ids else output
    kept = _without(value, deleted)
    return output if kept == value else msgspec.json.encode(kept).decode()


_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAMES: Final = ("outcome", "memory_id", "previous_id", "conversation_id", "position")
_DELETED: Final = "deleted since"


def _without(value: Any, deleted: Deletion) -> Any:
    if isinstance(value, list):
        return [_without(each, deleted) for each in value]
    if isinstance(value, str):
        names = value in deleted.ids or deleted.ids.isdisjoint(ids_in(value))
        return value if names else _DELETED
    if not isinstance(value, dict):
        return value
    named = any(isinstance(each, str) and each in deleted.ids for each in value.values())
    if named or (value.get("conversation_id"), value.get("position")) in deleted.messages:
        return {**{name: value[name] for name in _NAMES if name in value}, "deleted": True}
    return {name: _without(each, deleted) for name, each in value.items()}


def _text(part: Part) -> str:
    if isinstance(part, ToolCallPart):
        return f"{part.name} {part.arguments}"
    if isinstance(part, DataPart):
        return "\n".join(each for each in (part.title, part.text) if each)
    return part.text


def _well_formed_part(part: Part) -> Part:
    fields = {name: getattr(part, name) for name in part.__struct_fields__}
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    changed = {name: text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for name, text in texts.items()}
    return msgspec.structs.replace(part, **changed)
