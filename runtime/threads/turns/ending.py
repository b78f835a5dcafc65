"""The end of turns and attempts: what becomes of their rows and of their runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Table

from runtime.database import bulk
from runtime.database.text import storable
from runtime.threads import run
from runtime.threads.turns.thread_order import ThreadHold
from runtime.threads.turns.turn import (
    AGENT_GONE,
    CANCELLED,
    DEAD,
    DONE,
    LIVING,
    QUEUED,
    WAITING,
    ClaimedTurn,
    Outcome,
    TurnOutcome,
)

FAILED: Final = "failed"
"""The end of the run of a dead letter."""

CANCELLED_BY_PERSON: Final = "a person cancelled it"

_ERROR_LENGTH: Final = 500

_RUN_STATES: Final = {
    DONE: run.DONE,
    DEAD: run.DEAD,
    CANCELLED: run.CANCELLED,
    QUEUED: run.WAITING,
    WAITING: run.WAITING,
    AGENT_GONE: run.AGENT_GONE,
}

_LATER: Final = {QUEUED: (CANCELLED,), WAITING: (QUEUED, CANCELLED), AGENT_GONE: (CANCELLED,)}
"""States in which an outcome may have been stored, besides its own."""


class EndedRun(NamedTuple):
    """A run that ended. `at`: Unix milliseconds."""

    run_id: str
    user_id: str
    agent: str
    thread_id: str | None
    ended: str | None
    """See `run.End`; None for agents without a model, and if the agent is gone."""
    error: str | None
    at: int
    cause: str | None = None
    """See `Outcome.cause`."""


OnEnded = Callable[[Connection, Sequence[EndedRun]], None]
"""Called with runs that end, in the transaction that ends them."""


class EndedTurn(NamedTuple):
    """A turn that ends without an attempt: a row with the columns of a claim, and what it becomes."""

    row: Any
    state: str
    error: str


def store(connection: Connection, table: Table, endings: Sequence[TurnOutcome[Any]]) -> None:
    """Write the outcomes of attempts to the rows of the turns and of the runs."""
    columns = ("state", "tries", "next_attempt_at", "lease_until", "finished_at", "last_error", "suspect")
    bulk.update(connection, table, ("id",), columns, [_row_end(ending) for ending in endings])
    run.end(connection, [_run_end(ending) for ending in endings])


def close(connection: Connection, table: Table, closed: Sequence[EndedTurn], at: int) -> None:
    """End these turns, and their runs if they have any."""
    rows = [(row.id, state, None, None, at, error, False) for row, state, error in closed]
    columns = ("state", "lane", "lease_until", "finished_at", "last_error", "suspect")
    bulk.update(connection, table, ("id",), columns, rows)
    ends = [
        run.End(row.run_id, row.attempt, _RUN_STATES[state], at, error, end_name(Outcome(state)))
        for row, state, error in closed
        if row.run_id
    ]
    run.end(connection, ends)


def is_stored(current: tuple[int, str] | None, turn: ClaimedTurn, outcome: Outcome) -> bool:
    """True if the end of this attempt was stored before, by a commit whose confirmation was lost."""
    states = (outcome.state, *_LATER.get(outcome.state, ()))
    return current is not None and current[0] == turn.attempt and current[1] in states


def ended_runs(endings: Sequence[TurnOutcome[Any]], held: dict[str, ThreadHold]) -> list[EndedRun]:
    """Return the runs that these outcomes end, and those that nobody continues before a person sends their turns again.
    `held`: the places of the turns on their threads."""
    return [
        EndedRun(
            run_id=turn.run_id,
            user_id=turn.user_id,
            agent=turn.agent,
            thread_id=_thread(turn, held),
            ended=end_name(outcome),
            error=_error(outcome),
            at=at,
            cause=outcome.cause,
        )
        for turn, outcome, at in endings
        if outcome.state not in LIVING
    ]


def closed_runs(closed: Sequence[EndedTurn], held: dict[str, ThreadHold], at: int) -> list[EndedRun]:
    """Return the runs of turns that ended without an attempt."""
    return [
        EndedRun(row.run_id, row.user_id, row.agent, _thread(row, held), end_name(Outcome(state)), error, at)
        for row, state, error in closed
        if row.run_id
    ]


def _row_end(ending: TurnOutcome[Any]) -> tuple[Any, ...]:
    turn, outcome, at = ending
    tries = turn.tries if outcome.counts else turn.tries - 1
    next_at = at + int(outcome.wait * 1000) if outcome.until is None else outcome.until
    finished = None if outcome.state in (QUEUED, WAITING) else at
    return turn.id, outcome.state, tries, next_at, None, finished, _error(outcome), False


def _run_end(ending: TurnOutcome[Any]) -> run.End:
    turn, outcome, at = ending
    state = outcome.run_state or _RUN_STATES[outcome.state]
    return run.End(turn.run_id, turn.attempt, state, at, _error(outcome), end_name(outcome))


def end_name(outcome: Outcome) -> str | None:
    """Return the end of a run with this outcome, see `run.End`; None if it goes on."""
    return {DONE: outcome.ended, DEAD: outcome.ended or FAILED, CANCELLED: CANCELLED}.get(outcome.state)


def _thread(turn: Any, held: dict[str, ThreadHold]) -> str | None:
    return held[turn.id].thread_id if turn.id in held else getattr(turn, "thread_id", None)


def _error(outcome: Outcome) -> str | None:
    """Return the error as it is stored, in clear text and shortened; it may quote any part of the turn."""
    return None if outcome.error is None else storable(outcome.error[:_ERROR_LENGTH])
