"""What an agent said and called in one run, from the messages of its thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection

from runtime.models.calls.usage import RunUsage, usage_of
from runtime.threads.content import EventPart, TextPart, ToolCallPart, ToolOutputPart
from runtime.threads.messages import Message, Messages
from runtime.threads.run import ENDED, PARKED
from runtime.threads.step import model_steps
from runtime.threads.turns.ending import FAILED
from runtime.threads.turns.named_run import NamedRun, find_run
from runtime.threads.turns.turn import AGENT_GONE, LIVING
from runtime.tools.context import Context


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


class AnsweredRun(NamedTuple):
    """A run. `turn`: the state of its turn; one of `LIVING` if the run goes on. `state` and `ended`: of the run, see
    `runtime.threads.run`. `error`: why it failed, why its last attempt did, or why it waits. `behind`: the state of the
    run for which it waits in its thread, if that waits too."""

    id: str
    agent: str
    turn: str
    state: str
    ended: str | None
    error: str | None
    behind: str | None = None

    @classmethod
    def of(cls, named: NamedRun) -> AnsweredRun:
        """Return a run that was looked up by its id."""
        run = named.run
        # Its turn waits for a person, who can send it again.
        gone = AGENT_GONE if run.state not in ENDED else run.state
        turn, before = named.living or gone, named.before
        if before is None or before.error is None:
            return cls(run.id, run.agent, turn, run.state, run.ended, run.error)
        why = f"an earlier turn of the thread waits: {before.error}"
        return cls(run.id, run.agent, turn, run.state, run.ended, why, before.state)

    @property
    def is_over(self) -> bool:
        """Return True if it does not go on by itself."""
        return self.turn not in LIVING

    @property
    def goes_on(self) -> bool:
        """Return True if it is not over, and neither it nor the turn before it waits for a decision or a time."""
        return not self.is_over and self.state not in PARKED and self.behind not in PARKED

    @property
    def shown_state(self) -> str:
        """Return its state for people."""
        return self.turn if self.is_over else self.state

    @property
    def shown_end(self) -> str | None:
        """Return how it ended; None if it goes on."""
        return self.ended or FAILED if self.is_over else None


class TurnAnswer(NamedTuple):
    """A run, and what the agent said and called in it until now. `thread_id`: None if the thread was deleted, or not
    entered yet."""

    run: AnsweredRun
    thread_id: str | None
    turn: Turn
    usage: RunUsage

    def json(self) -> dict[str, Any]:
        """Return it as JSON. `ended`: null if the run goes on."""
        turn = self.turn
        outputs = {output.call_id: output for output in turn.outputs}
        return {
            "run": self.run.id,
            "thread": self.thread_id,
            "agent": self.run.agent,
            "messages": list(turn.texts),
            "tool_calls": [_call_json(call, outputs.get(call.id)) for call in turn.calls],
            "notes": list(turn.notes),
            "usage": self.usage._asdict(),
            "ended": self.run.shown_end,
            "state": self.run.shown_state,
            "error": self.run.error,
        }


async def answer_of(context: Context, run_id: str, user_id: str) -> TurnAnswer:
    """Return a run of the user, and what was said in it, as they are at one moment. Raises NotFound, `Unavailable`."""
    messages = Messages(context.database, context.clock)

    def read(connection: Connection) -> TurnAnswer:
        found = find_run(connection, run_id, user_id)
        thread_id = found.run.thread_id
        said = [] if thread_id is None else messages.find_of_run(connection, thread_id, user_id, run_id)
        return TurnAnswer(AnsweredRun.of(found), thread_id, Turn.of(said), usage_of(connection, run_id))

    # One transaction: each costs more than what it reads.
    async with context.database.read() as connection:
        return await connection.run_sync(read)


def run_totals(connection: Connection, messages: Messages, user_id: str, run_id: str) -> dict[str, object]:
    """Return the steps, the messages and the usage of a run, as they are stored."""
    return {
        "total_steps": model_steps(connection, run_id),
        "total_messages": messages.said_in(connection, user_id, run_id),
        "usage": usage_of(connection, run_id)._asdict(),
    }


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
