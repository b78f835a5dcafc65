"""Messages of a thread as entries of a context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from runtime.agents.context.fields import Entry, EntryRole
from runtime.agents.context.render import fenced, joined
from runtime.models.request import ToolCall
from runtime.threads.content import DataPart, EventPart, Part, TextPart, ToolCallPart, ToolOutputPart
from runtime.threads.messages import Message
from runtime.tools.model.agent_toolset import DONE
from runtime.tools.model.names import model_name

_STEP: Final = "/"
"""Separates the number of a step from the rest of a message's key: `3/calls`, `3/output/0`."""
_ENDED: Final = "The turn ended with this call. It has no output."
_NO_OUTPUT: Final = "This call has no output, so it is not known whether it happened. Check before you repeat it."


def entries_of(messages: Iterable[Message], *, native: bool) -> list[Entry]:
    """Return the messages as a model reads them, oldest first. The messages of one step of a run are one group.

    `native`: calls and outputs have the form of the model's own interface; otherwise they are text. Reasoning is left
    out: a model does not read its earlier reasoning.
    """
    # An event of another run of the thread may be between a call and its output.
    groups: dict[tuple[str | None, str], list[Message]] = {}
    for message in messages:
        groups.setdefault(group_of(message), []).append(message)
    return [entry for together in groups.values() for entry in _entries(together, native=native)]


def group_of(message: Message) -> tuple[str | None, str]:
    """Return what the messages of one group have in common. Without a step each message is a group of its own."""
    step, separator, _ = (message.key or "").partition(_STEP)
    return (message.run_id, step) if separator else (message.id, "")


def _entries(messages: Sequence[Message], *, native: bool) -> Iterator[Entry]:
    group = messages[0].position
    # What the agent said and called in one step is one message of the model.
    own = [message for message in messages if message.role == "assistant" and message.kind != "reasoning"]
    said = [part for message in own for part in message.parts]
    if own:
        yield _own_entry(own[0].position, said, group, native=native)
    # Services refuse a call without its output, and an output without its call. Either may be missing: `done` has no
    # output, a run may have ended between them, and a person may have deleted one.
    waiting = {part.id: part for part in said if isinstance(part, ToolCallPart) and (native or part.name != DONE.name)}
    for message in messages:
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolOutputPart):
                    called = waiting.pop(part.call_id, None) is not None
                    yield _output_entry(message.position, part, group, native=native, called=called)
        elif message.role != "assistant":
            yield Entry(message.position, "user", joined(map(_text, message.parts)), group)
    for call in waiting.values():
        ended = call.name == DONE.name
        missing = ToolOutputPart(call.id, call.name, _ENDED if ended else _NO_OUTPUT, "ok" if ended else "unknown")
        yield _output_entry(own[0].position, missing, group, native=native, called=True)


def without_calls(entry: Entry) -> Entry:
    """Return an entry whose calls and outputs are text, for a request without tools and for a summary."""
    if entry.call_id is not None:
        return entry._replace(role="user", text=fenced("tool_output", entry.text), call_id=None)
    calls = (fenced("tool_call", call.arguments, name=call.name) for call in entry.calls)
    return entry._replace(text=joined((entry.text, *calls)), calls=())


def _own_entry(position: int, said: Sequence[Part], group: int, *, native: bool) -> Entry:
    texts = [part.text for part in said if isinstance(part, TextPart)]
    calls = [part for part in said if isinstance(part, ToolCallPart)]
    if native:
        # Services refuse names in another form, and a model may have invented one.
        made = tuple(ToolCall(call.id, model_name(call.name), call.arguments) for call in calls)
        return Entry(position, "assistant", joined(texts), group, made)
    written = {
        "messages": texts,
        "tool_calls": [{"name": call.name, "args": msgspec.Raw(call.arguments.encode())} for call in calls],
    }
    return Entry(position, "assistant", msgspec.json.encode(written).decode(), group)


def _output_entry(position: int, part: ToolOutputPart, group: int, *, native: bool, called: bool) -> Entry:
    status = None if part.status == "ok" else part.status
    if native and called:
        text = part.text if status is None else f"status: {status}\n{part.text}"
        return Entry(position, "tool", text, group, (), part.call_id)
    role: EntryRole = "user" if native else "tool"
    return Entry(position, role, fenced("tool_output", part.text, name=part.name, status=status), group)


def _text(part: Part) -> str:
    """Return a part of somebody else's message."""
    match part:
        case DataPart():
            return fenced("data", part.text, title=part.title, type=part.content_type)
        case EventPart():
            return fenced("event", part.text, name=part.name)
        case TextPart():
            return part.text
    return ""
