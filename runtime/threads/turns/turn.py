"""A turn: one request to an agent, as a claim returns it, and the outcome of an attempt."""

from __future__ import annotations

from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct

from runtime.errors import SymbiontError

QUEUED: Final = "queued"
"""Waits until it can be claimed."""
RUNNING: Final = "running"
WAITING: Final = "waiting"
"""Waits until its thread is free, and cannot be claimed before: see `runtime.threads.turns.thread_order`."""
DONE: Final = "done"
DEAD: Final = "dead"
"""A dead letter: all tries failed; it can be redelivered."""
AGENT_GONE: Final = "agent_gone"
"""Its agent is no longer declared; it can be redelivered."""
CANCELLED: Final = "cancelled"
"""A person cancelled it; it can be redelivered."""

NEVER: Final = 253_402_300_799_000
"""The end of the year 9999 in Unix milliseconds: the next attempt of a turn that waits until it is woken."""

LIVING: Final = (QUEUED, RUNNING, WAITING)
"""States of a turn that has not ended."""


class AgentGone(SymbiontError):  # noqa: N818 - it says where the turn waits
    """The agent of a turn is not declared, or disabled. The turn waits and can be redelivered."""

    def __init__(self, agent: str) -> None:
        super().__init__(f"the agent {agent} is not declared, or not enabled")


class ThreadBusy(SymbiontError):  # noqa: N818 - it says what the turn waits for
    """Another turn has the thread of this turn, which waits for it."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"another turn has the thread {thread_id}")


class ClaimedTurn(Struct, frozen=True, kw_only=True):
    """A turn that this process has claimed. Every kind of turn is a subclass with what its agent needs."""

    trigger: ClassVar[str]
    """The kind, as runs and logs name it: `delivery`."""

    id: str
    """The id of its row in the table of its kind."""
    run_id: str
    attempt: int
    """Number of the claim; fences everything this attempt writes."""
    tries: int
    """Number of claims that count towards the dead letter, this one included."""
    agent: str
    user_id: str
    thread_id: str | None = None
    """The conversation that its run belongs to."""

    @property
    def arrived_at(self) -> int:
        """Unix milliseconds: turns of one thread run in this order."""
        raise NotImplementedError

    @property
    def delivery_id(self) -> str | None:
        """The delivery that its run belongs to."""
        return None

    @property
    def label(self) -> dict[str, str]:
        """The turn as a field of log events, such as `delivery_id=…`."""
        return {f"{self.trigger}_id": self.id}


class Outcome(NamedTuple):
    """The end of an attempt. `state`: `done`, `dead`, `agent_gone`, `cancelled`; `queued` to be tried again after
    `wait`; `waiting` until its thread is free."""

    state: str
    error: str | None = None
    wait: float = 0.0
    """Seconds."""
    counts: bool = True
    """False: the attempt does not count towards the dead letter, because its end is no failure of the agent."""
    ended: str | None = None
    """The end of the run, see `run.End`."""
    run_state: str | None = None
    """State of the run while it waits, see `Away.state`; None: the usual one."""
    until: int | None = None
    """Unix milliseconds of the next attempt, in place of `wait`."""
    cause: str | None = None
    """Kind of the problem of a run that failed, see `GiveUp.cause`."""
    frees_thread: bool = False
    """Later turns of its thread run while it waits."""


T = TypeVar("T", bound=ClaimedTurn)


class TurnOutcome(NamedTuple, Generic[T]):
    """The outcome of one claimed turn."""

    turn: T
    outcome: Outcome
    at: int
    """Unix milliseconds."""
