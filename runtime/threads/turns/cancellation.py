"""Cancellation of turns by a person: one that is not running ends at once, another when its attempt is stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Table, select

from runtime.database import bulk
from runtime.database.schema import runs
from runtime.errors import Conflict, NotFound
from runtime.threads.turns import thread_order
from runtime.threads.turns.ending import CANCELLED_BY_PERSON, EndedTurn
from runtime.threads.turns.thread_order import ThreadHold
from runtime.threads.turns.turn import CANCELLED, QUEUED, RUNNING, WAITING


class Cancellation(NamedTuple):
    """A person's request to cancel a turn, or the run `run_id` of any turn, at `at` (Unix milliseconds)."""

    user_id: str
    at: int
    turn_id: str | None = None
    run_id: str | None = None


Close = Callable[[Connection, EndedTurn, int, dict[str, ThreadHold]], None]
"""Ends a turn, whose place on its locked thread is given."""


def cancel(
    connection: Connection, table: Table, trigger: str, asked: Cancellation, close: Close
) -> str | Exception | None:
    """Cancel a turn of this table, or ask its attempt to stop if it is running. Returns its state, None for a run that
    is not of this kind of turn, else `NotFound` or `Conflict`."""
    turn_id, kind = _turn(connection, asked)
    if kind not in (None, trigger) or turn_id is None:
        return None
    held = thread_order.lock_threads_of(connection, [turn_id])
    mine = select(table).where(table.c.id == turn_id, table.c.user_id == asked.user_id)
    row = connection.execute(mine.with_for_update()).first()
    if row is None:
        return NotFound(f"there is no {trigger} {turn_id}")
    if asked.run_id not in (None, row.run_id):
        return Conflict(f"the run {asked.run_id} has ended already")
    if row.state == RUNNING:
        bulk.update(connection, runs, ("id",), ("cancel",), [(row.run_id, True)])
        return RUNNING
    if row.state in (QUEUED, WAITING):
        close(connection, EndedTurn(row, CANCELLED, CANCELLED_BY_PERSON), asked.at, held)
    elif row.state != CANCELLED:
        return Conflict(f"the {trigger} {turn_id} is {row.state} already")
    return CANCELLED


def threads_to_free(connection: Connection, asked: Sequence[Cancellation]) -> set[str]:
    """Return the ids of the threads of these turns."""
    turns = [turn_id for each in asked if (turn_id := _turn(connection, each)[0]) is not None]
    return thread_order.threads_of(connection, turns)


def _turn(connection: Connection, asked: Cancellation) -> tuple[str | None, str | None]:
    """Return the id of the turn and, for a run, its kind; no id if there is no such run."""
    if asked.run_id is None:
        return asked.turn_id, None
    theirs = runs.c.id == asked.run_id, runs.c.user_id == asked.user_id
    found = connection.execute(select(runs.c.trigger, runs.c.delivery_id).where(*theirs)).first()
    # A run without a delivery has the id of its turn.
    return (None, None) if found is None else (found.delivery_id or asked.run_id, found.trigger)
