"""The row of a run: what an agent does in one turn, over all attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from runtime.database import bulk
from runtime.database.schema import runs

RUNNING: Final = "running"
WAITING: Final = "waiting"
"""For its next attempt."""
DONE: Final = "done"
DEAD: Final = "dead"


class Begin(NamedTuple):
    """An attempt begins. `new`: the run has no row yet."""

    run_id: str
    user_id: str
    trigger: str
    """The kind of turn, such as `delivery`."""
    delivery_id: str | None
    thread_id: str | None
    agent: str
    attempt: int
    at: int
    new: bool


class End(NamedTuple):
    """An attempt ended; the run is `WAITING`, `DONE` or `DEAD`."""

    run_id: str
    attempt: int
    state: str
    at: int
    error: str | None


def begin(connection: Connection, begins: Sequence[Begin]) -> None:
    """Make these attempts the current ones: from now on only they may write steps."""
    columns = ("id", "user_id", "trigger", "delivery_id", "thread_id", "agent", "attempt", "started_at", "state")
    bulk.insert(connection, runs, columns, [(*b[:8], RUNNING) for b in begins if b.new])
    again = [(b.run_id, b.attempt, RUNNING, None, None) for b in begins if not b.new]
    bulk.update(connection, runs, ("id",), ("attempt", "state", "finished_at", "error"), again)


def end(connection: Connection, ends: Sequence[End]) -> None:
    """Store how these attempts ended; attempts that are no longer current change nothing."""
    rows = [(e.run_id, e.attempt, e.state, None if e.state == WAITING else e.at, e.error) for e in ends]
    bulk.update(connection, runs, ("id", "attempt"), ("state", "finished_at", "error"), rows)
