"""Messages of a thread as entries of a context."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from runtime.agents.context.fields import Entry, EntryRole
from runtime.agents.context.render import fenced, join_paragraphs
from runtime.models.request import ToolCall
from runtime.threads.content import DataPart, EventPart, Part, TextPart, ToolCallPart, ToolOutputPart
from runtime.threads.messages import Message
from runtime.tools.model.agent_toolset import DONE
from runtime.tools.model.names import model_name

_STEP: Final = "/"
"""Separates the number of a step from the rest of a message's key: `3/calls`, `3/output/0`."""
_ENDED: Final = "The turn ended with this call. It has no output."
_NO_OUTPUT: Final = "This call has no output, so it is not known whether it happened. Check before you repeat it."
_WAITS: Final = (
    "This call has not been run: it, or a call before it, waits for approval by a person. Its output follows later in "
    "the conversation."
)
_LATE: Final = "This call waited for approval, and has an output now. Go on with the turn that made it."

Group = tuple[str | None, str]
"""The key of a group of messages: the run and the step, or the message alone."""


def entries_of(
    messages: Iterable[Message], *, native: bool, open_runs: Collection[str] = (), own: str | None = None
) -> list[Entry]:
    """Return the messages as a model reads them, oldest first. The messages of one step of a run are one group.

    `native`: calls and outputs have the form of the model's own interface; otherwise they are text. `open_runs`: runs
    that go on, whose calls without an output wait for a person. `own`: the run that reads them. Reasoning is left out,
    except for that with native calls of this run, which some services want back.

    The output of a call that waited while other turns ran is a group of its own, where it was stored: what a model read
    before stays as it was, and what is new comes last.
    """
    groups: list[list[Message]] = []
    current: dict[Group, list[Message]] = {}
    calls: dict[str, ToolCallPart] = {}
    speaker: str | None = None
    for message in messages:
        key = group_of(message)
        if message.role in ("user", "assistant") and message.run_id != speaker:
            # An event of another run may be between a call and its output, but no turn.
            speaker = message.run_id
            current.clear()
        if key not in current:
            current[key] = []
            groups.append(current[key])
        current[key].append(message)
        calls |= {part.id: part for part in message.parts if isinstance(part, ToolCallPart)}
    late = _late_outputs(groups)
    return [entry for group in groups for entry in _entries(group, calls, late, open_runs, own, native=native)]


def group_of(message: Message) -> Group:
    """Return the group of a message. Without a step each message is a group of its own."""
    step, separator, _ = (message.key or "").partition(_STEP)
    return (message.run_id, step) if separator else (message.id, "")


def calls_without_output(messages: Iterable[Message]) -> dict[str, Message]:
    """Return the messages with calls that have no output among these messages, by the ids of the calls. The call that
    ends a turn needs none."""
    found: dict[str, Message] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart) and part.name != DONE.name:
                found[part.id] = message
            elif isinstance(part, ToolOutputPart):
                found.pop(part.call_id, None)
    return found


def _late_outputs(groups: Iterable[Sequence[Message]]) -> set[str]:
    """Return the ids of the calls whose outputs are in another group."""
    return {
        part.call_id
        for group in groups
        if group[0].role == "tool"
        for message in group
        for part in message.parts
        if isinstance(part, ToolOutputPart)
    }


def _entries(
    messages: Sequence[Message],
    calls: Mapping[str, ToolCallPart],
    late: Collection[str],
    open_runs: Collection[str],
    reader: str | None,
    *,
    native: bool,
) -> Iterator[Entry]:
    group = messages[0].position
    # What the agent said and called in one step is one message of the model.
    own = [message for message in messages if message.role == "assistant" and message.kind != "reasoning"]
    said = [part for message in own for part in message.parts]
    if own:
        entry = _own_entry(own[0].position, said, group, native=native)
        if own[0].run_id == reader:
            thoughts = (message.text for message in messages if message.kind == "reasoning")
            yield entry._replace(reasoning=join_paragraphs(thoughts) if entry.calls else "")
        else:
            yield entry._replace(calls=tuple(ToolCall(call.id, call.name, call.arguments) for call in entry.calls))
    # Services refuse a call without its output, and an output without its call. Either may be missing: `done` has no
    # output, a run may have ended between them, a call may wait for a person, and a person may have deleted one.
    waiting = {part.id: part for part in said if isinstance(part, ToolCallPart) and (native or part.name != DONE.name)}
    for message in messages:
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolOutputPart):
                    called = waiting.pop(part.call_id, None) is not None
                    yield _output_entry(message.position, part, group, calls, native=native, called=called)
        elif message.role != "assistant":
            yield Entry(message.position, "user", join_paragraphs(map(_text, message.parts)), group)
    for call in waiting.values():
        ended = call.name == DONE.name
        waits = call.id in late or own[0].run_id in open_runs
        text = _ENDED if ended else _WAITS if waits else _NO_OUTPUT
        missing = ToolOutputPart(call.id, call.name, text, "ok" if ended or waits else "unknown")
        yield _output_entry(own[0].position, missing, group, calls, native=native, called=True)


def without_calls(entry: Entry) -> Entry:
    """Return an entry whose calls and outputs are text, for a request without tools and for a summary."""
    if entry.call_id is not None:
        return entry._replace(role="user", text=fenced("tool_output", entry.text), call_id=None)
    calls = (fenced("tool_call", call.arguments, name=call.name) for call in entry.calls)
    return entry._replace(text=join_paragraphs((entry.text, *calls)), calls=())


def _own_entry(position: int, said: Sequence[Part], group: int, *, native: bool) -> Entry:
    texts = [part.text for part in said if isinstance(part, TextPart)]
    calls = [part for part in said if isinstance(part, ToolCallPart)]
    if native:
        # Services refuse names in another form, and a model may have invented one.
        native_calls = tuple(ToolCall(call.id, model_name(call.name), call.arguments, call.extra) for call in calls)
        return Entry(position, "assistant", join_paragraphs(texts), group, native_calls)
    written = {
        "messages": texts,
        "tool_calls": [{"name": call.name, "args": msgspec.Raw(call.arguments.encode())} for call in calls],
    }
    return Entry(position, "assistant", msgspec.json.encode(written).decode(), group)


def _output_entry(
    position: int, part: ToolOutputPart, group: int, calls: Mapping[str, ToolCallPart], *, native: bool, called: bool
) -> Entry:
    status = None if part.status == "ok" else part.status
    if native and called:
        text = part.text if status is None else f"status: {status}\n{part.text}"
        return Entry(position, "tool", text, group, (), part.call_id)
    role: EntryRole = "user" if native else "tool"
    text = fenced("tool_output", part.text, name=part.name, status=status)
    if not called and (call := calls.get(part.call_id)) is not None:
        # Far from its call it says which one it was.
        text = join_paragraphs((_LATE, fenced("tool_call", call.arguments, name=call.name), text))
    return Entry(position, role, text, group)


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
