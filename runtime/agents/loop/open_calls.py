"""Calls without an output when their run ends: each gets one, which says what is known about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import Connection

from runtime.agents.context.fields import MESSAGE_TOKENS
from runtime.agents.loop.call import UNKNOWN, CallOutput, step_key
from runtime.agents.loop.confirmations import decided_output
from runtime.agents.loop.transcript import calls_without_output
from runtime.database.connection import Database
from runtime.database.schema import steps
from runtime.database.sealed import Seal
from runtime.threads.approvals.approval import APPROVED, Approval
from runtime.threads.approvals.store import Approvals
from runtime.threads.content import ToolCallPart, ToolOutputPart
from runtime.threads.events import run_event
from runtime.threads.messages import Message, Messages, NewMessage
from runtime.threads.step import DONE, INTENDED, RecordedStep, find_steps
from runtime.threads.thread_write import Writer
from runtime.tools.model.agent_toolset import DONE as DONE_CALL

_NOT_RUN: Final = "This call was not run, because the turn ended before it. Nothing was changed."
_CHARACTERS_A_TOKEN: Final = 3


class OpenCalls:
    """Closes the open calls of runs that end."""

    def __init__(self, database: Database, messages: Messages, approvals: Approvals) -> None:
        self._messages = messages
        self._approvals = approvals
        self._result = Seal(database.keys, steps.c.result)

    def close(self, connection: Connection, by: Writer) -> None:
        """Store an output for every call of the run `by.run_id` that has none, in the transaction that ends the run and
        has locked its thread. Later attempts at the run find it, and do not run the call.

        A run has such calls in its last step alone: it goes on when it has all outputs of one.
        """
        assert by.run_id is not None
        stored = self._messages.last_calls(connection, by.thread_id, by.user_id, by.run_id)
        missing = calls_without_output(stored)
        if missing:
            decided = self._approvals.find_of_calls(connection, by.run_id, tuple(missing))
            begun = find_steps(connection, by.run_id, [step_key(each) for each in missing])
            new = [
                _message(message, by.run_id, call_id, place, self._output(call_id, by, decided, begun))
                for place, call_id, message in _places(missing)
            ]
            self._messages.store(connection, by, new)

    def _output(
        self, call_id: str, by: Writer, decided: Mapping[str, Approval], begun: Mapping[str, RecordedStep]
    ) -> CallOutput:
        step, approval = begun.get(step_key(call_id)), decided.get(call_id)
        if step is not None and step.state == DONE and step.result is not None:
            row = f"{by.run_id}/{step.position}"
            opened = self._result.open(step.result, row=row, user_id=by.user_id)
            return msgspec.json.decode(opened, type=CallOutput)
        if step is not None and step.state == INTENDED:
            return CallOutput("unknown", UNKNOWN)
        if approval is None or approval.state == APPROVED:
            return CallOutput("error", _NOT_RUN)
        return decided_output(approval)


def _places(missing: Mapping[str, Message]) -> list[tuple[int, str, Message]]:
    """Return these calls with their places among the calls of their step that have outputs."""
    return [
        (place, part.id, message)
        for message in {message.id: message for message in missing.values()}.values()
        for place, part in enumerate(_with_outputs(message))
        if part.id in missing
    ]


def _with_outputs(message: Message) -> Sequence[ToolCallPart]:
    return [part for part in message.parts if isinstance(part, ToolCallPart) and part.name != DONE_CALL.name]


def _message(calls: Message, run_id: str, call_id: str, place: int, output: CallOutput) -> NewMessage:
    call = next(part for part in _with_outputs(calls) if part.id == call_id)
    step = (calls.key or "").partition("/")[0]
    tokens = len(output.text) // _CHARACTERS_A_TOKEN + MESSAGE_TOKENS
    part = ToolOutputPart(call_id, call.name, output.text, output.status)
    name = call.tool or call.name
    events = (run_event.tool_ended(run_id, int(step), call_id, name, output.status, output.text),)
    key = f"{step}/output/{place}"
    return NewMessage(role="tool", kind="tool_output", parts=(part,), tokens=tokens, key=key, events=events)
