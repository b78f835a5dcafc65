"""Messages and tool calls of an agent in one run, from the messages of its thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from pydantic import Field
from sqlalchemy import Connection

from runtime.models.calls.usage import RunUsage, usage_of
from runtime.threads.content import EventPart, TextPart, ToolCallPart, ToolOutputPart
from runtime.threads.messages import Message, Messages
from runtime.threads.run import ENDED, PARKED
from runtime.threads.step import count_model_steps
from runtime.threads.turns.ending import FAILED
from runtime.threads.turns.named_run import NamedRun, find_run
from runtime.threads.turns.turn import AGENT_GONE, LIVING
from runtime.tools.context import Context
from runtime.tools.result import Result


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
    def is_active(self) -> bool:
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


class ToolCallAnswer(Result):
    """A call of a tool, and its output."""

    name: str
    arguments: dict[str, Any]
    status: str | None = Field(description="`ok`, `error` or `unknown`; null: it has no output yet.")
    output: str | None


class UsageAnswer(Result):
    """What the calls of models used."""

    calls: int
    tokens_in: int
    tokens_out: int
    cached: int
    cost: float | None = Field(description="In US dollars; null if no price is known.")


class AgentTurn(Result):
    """A run, and what the agent said and called in it until now."""

    run: str
    agent: str
    thread: str | None = Field(description="The thread; null if it was deleted, or not entered yet.")
    state: str = Field(
        description="`waiting`, `running`, or what the run waits for, such as `awaiting` an approval; then `done`, "
        "`dead` or `cancelled`."
    )
    ended: str | None = Field(
        description="`answered`, `done`, `max_steps`, `repeated`, `cancelled` or `failed`; null if it goes on."
    )
    messages: list[str] = Field(description="What the agent said.")
    tool_calls: list[ToolCallAnswer]
    notes: list[str] = Field(description="Why the run ended without an answer.")
    usage: UsageAnswer
    error: str | None = Field(description="Why it failed, or why it waits.")


async def answer_of(context: Context, run_id: str, user_id: str) -> tuple[AnsweredRun, AgentTurn]:
    """Return a run of the user, and what was said in it, as they are at one moment. Raises NotFound, `Unavailable`."""
    messages = Messages(context.database, context.clock)

    def read(connection: Connection) -> tuple[AnsweredRun, AgentTurn]:
        found = find_run(connection, run_id, user_id)
        run, thread_id = AnsweredRun.of(found), found.run.thread_id
        said = [] if thread_id is None else messages.find_of_run(connection, thread_id, user_id, run_id)
        return run, _turn(run, thread_id, said, usage_of(connection, run_id))

    # One transaction: each costs more than what it reads.
    async with context.database.read() as connection:
        return await connection.run_sync(read)


def _turn(run: AnsweredRun, thread_id: str | None, said: Iterable[Message], usage: RunUsage) -> AgentTurn:
    texts, calls, notes = list[str](), list[ToolCallPart](), list[str]()
    outputs: dict[str, ToolOutputPart] = {}
    for message in said:
        for part in message.parts:
            if isinstance(part, TextPart) and (message.role, message.kind) == ("assistant", "message"):
                texts.append(part.text)
            elif isinstance(part, ToolCallPart):
                calls.append(part)
            elif isinstance(part, ToolOutputPart):
                outputs[part.call_id] = part
            elif isinstance(part, EventPart):
                notes.append(part.text)
    return AgentTurn(
        run=run.id,
        agent=run.agent,
        thread=thread_id,
        state=run.shown_state,
        ended=run.shown_end,
        messages=texts,
        tool_calls=[_call(call, outputs.get(call.id)) for call in calls],
        notes=notes,
        usage=UsageAnswer.of(usage),
        error=run.error,
    )


def run_totals(connection: Connection, messages: Messages, user_id: str, run_id: str) -> dict[str, object]:
    """Return the steps, the messages and the usage of a run, as they are stored."""
    return {
        "total_steps": count_model_steps(connection, run_id),
        "total_messages": messages.count_agent_messages(connection, user_id, run_id),
        "usage": usage_of(connection, run_id)._asdict(),
    }


def arguments_of(call: ToolCallPart) -> Any:
    """Return the arguments of a call."""
    return msgspec.json.decode(call.arguments)


def _call(call: ToolCallPart, output: ToolOutputPart | None) -> ToolCallAnswer:
    status, text = (None, None) if output is None else (output.status, output.text)
    return ToolCallAnswer(name=call.name, arguments=arguments_of(call), status=status, output=text)
