"""What an agent said and called in one run, from the messages of its thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from runtime.api.admin.state import AdminContext, Event
from runtime.models.calls.usage import RunUsage, used_by
from runtime.threads.content import EventPart, TextPart, ToolCallPart, ToolOutputPart
from runtime.threads.inputs import InputState
from runtime.threads.messages import Message
from runtime.threads.thread import Thread
from runtime.threads.turns.turn import LIVING


class Turn(NamedTuple):
    """`texts`: messages of the agent. `notes`: what a person is told, such as why the run ended."""

    texts: Sequence[str]
    calls: Sequence[ToolCallPart]
    outputs: Sequence[ToolOutputPart]
    notes: Sequence[str]

    @classmethod
    def of(cls, messages: Iterable[Message]) -> Turn:
        """Return the turn of these messages of one run."""
        texts, calls, outputs, notes = [], [], [], []
        for message in messages:
            for part in message.parts:
                if isinstance(part, TextPart) and (message.role, message.kind) == ("assistant", "message"):
                    texts.append(part.text)
                elif isinstance(part, ToolCallPart):
                    calls.append(part)
                elif isinstance(part, ToolOutputPart):
                    outputs.append(part)
                elif isinstance(part, EventPart):
                    notes.append(part.text)
        return cls(texts, calls, outputs, notes)

    def events(self) -> Iterator[Event]:
        """Yield the events of these messages, see `runtime.agents.loop.events`."""
        for text in self.texts:
            yield {"event": "message", "text": text}
        for call in self.calls:
            yield {"event": "call", "id": call.id, "name": call.name, "arguments": arguments_of(call)}
        for output in self.outputs:
            given = {"status": output.status, "text": output.text}
            yield {"event": "output", "id": output.call_id, "name": output.name, **given}


class TurnAnswer(NamedTuple):
    """A turn, and how its run ended; `ended` is None if it goes on."""

    run_id: str
    thread: Thread
    turn: Turn
    usage: RunUsage
    state: InputState

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        outputs = {output.call_id: output for output in self.turn.outputs}
        return {
            "run": self.run_id,
            "thread": self.thread.id,
            "agent": self.thread.agent,
            "messages": list(self.turn.texts),
            "tool_calls": [_call_json(call, outputs.get(call.id)) for call in self.turn.calls],
            "notes": list(self.turn.notes),
            "usage": self.usage._asdict(),
            "ended": None if self.state.state in LIVING else self.state.ended or "failed",
            "state": self.state.run_state if self.state.state in LIVING else self.state.state,
            "error": self.state.error,
        }


async def turn_of(context: AdminContext, thread: Thread, run_id: str, state: InputState) -> TurnAnswer:
    """Return what a run said and called until now."""
    stored = await context.services.messages.of_run(thread, run_id)
    return TurnAnswer(run_id, thread, Turn.of(stored), await used_by(context.database, run_id), state)


def arguments_of(call: ToolCallPart) -> Any:
    """Return the arguments of a call."""
    return msgspec.json.decode(call.arguments)


def _call_json(call: ToolCallPart, output: ToolOutputPart | None) -> dict[str, Any]:
    return {
        "name": call.name,
        "arguments": arguments_of(call),
        "status": None if output is None else output.status,
        "output": None if output is None else output.text,
    }
