"""A turn: one request to an agent, as a claim returns it, and the outcome of an attempt."""

from __future__ import annotations

from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct

from runtime.errors import SymbiontError

QUEUED: Final = "queued"
"""Waits until it can be claimed."""
RUNNING: Final = "running"
DONE: Final = "done"
DEAD: Final = "dead"
"""A dead letter: all tries failed; it can be redelivered."""
AGENT_GONE: Final = "agent_gone"
"""Its agent is no longer declared; it can be redelivered."""


class AgentGone(SymbiontError):  # noqa: N818 - it says where the turn waits
    """The agent of a turn is not declared, or disabled. The turn waits and can be redelivered."""

    def __init__(self, agent: str) -> None:
        super().__init__(f"the agent {agent} is not declared, or not enabled")


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
    def delivery_id(self) -> str | None:
        """The delivery that its run belongs to."""
        return None

    @property
    def label(self) -> dict[str, str]:
        """The turn as a field of log events, such as `delivery_id=…`."""
        return {f"{self.trigger}_id": self.id}


class Outcome(NamedTuple):
    """The end of an attempt. `state`: `done`, `dead`, `agent_gone`, or `queued` to be tried again after `wait`."""

    state: str
    error: str | None = None
    wait: float = 0.0
    """Seconds."""
    counts: bool = True
    """False: this process cancelled the attempt, so it does not count towards the dead letter."""


T = TypeVar("T", bound=ClaimedTurn)


class Ending(NamedTuple, Generic[T]):
    """The outcome of one claimed turn."""

    turn: T
    outcome: Outcome
    at: int
    """Unix milliseconds."""
