"""The row of a run: what an agent does in one turn, over all attempts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, TextClause, func, select, text

from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import runs

RUNNING: Final = "running"
WAITING: Final = "waiting"
"""For its next attempt. A run that waits for something outside has the state of that, see `Away.state`."""
DONE: Final = "done"
DEAD: Final = "dead"
CANCELLED: Final = "cancelled"

ENDED: Final = frozenset({DONE, DEAD, CANCELLED})

AWAITING: Final = "awaiting"
"""For a person's approval of a call."""
BUDGET_EXCEEDED: Final = "budget_exceeded"
"""Until the budget of the agent or the user allows more."""
SWITCHED_OFF: Final = "switched_off"
"""Until its agent is switched on again."""

AGENT_GONE: Final = "agent_gone"
"""Until a person sends its turn again: the program does not have its agent, or disables it."""

PARKED: Final = (AWAITING, BUDGET_EXCEEDED, SWITCHED_OFF)
"""States of runs that wait for a decision or a time, see `runtime.threads.turns.parking`."""


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
    """An attempt ended; the run is `DONE`, `DEAD`, `CANCELLED`, or waits."""

    run_id: str
    attempt: int
    state: str
    at: int
    error: str | None
    ended: str | None = None
    """The end of the run: `answered`, `done`, `max_steps`, `repeated`, `cancelled`, `failed` …; None while it waits,
    and for agents without a model."""


class RunRow(NamedTuple):
    """A run as it is stored. Times are Unix milliseconds."""

    id: str
    agent: str
    thread_id: str | None
    trigger: str
    delivery_id: str | None
    state: str
    ended: str | None
    attempt: int
    started_at: int
    finished_at: int | None
    error: str | None


async def newest_runs(database: Database, user_id: str, agent: str, limit: int) -> list[RunRow]:
    """Return the newest runs of a user and an agent, newest first. Raises `Unavailable`."""
    query = select(*runs.c[*RunRow._fields]).where(runs.c.user_id == user_id, runs.c.agent == agent)
    async with database.read() as connection:
        found = await connection.execute(query.order_by(runs.c.started_at.desc()).limit(limit))
        return [RunRow(*row) for row in found]


IN_A_ROW: Final = 3
"""Number of failed runs in a row after which their thread is reported."""
_LOOKED_AT: Final = 300


class FailingThread(NamedTuple):
    """A thread whose newest runs failed, and why the last one did. `everywhere`: so did the newest ones of its agent,
    which may have a thread for each delivery."""

    user_id: str
    agent: str
    thread_id: str
    error: str
    everywhere: bool


async def failing_threads(database: Database, since: int) -> list[FailingThread]:
    """Return the threads whose newest runs all failed, of those that began after `since` (Unix milliseconds) and are
    among the newest of the daemon. Raises `Unavailable`."""
    columns = ("user_id", "agent", "thread_id", "ended", "error")
    # Ids begin with the time, and there is no other index over all runs.
    query = select(*runs.c[columns], runs.c.started_at).order_by(runs.c.id.desc()).limit(_LOOKED_AT)
    async with database.read() as connection:
        found = [row for row in await connection.execute(query) if row.ended and row.thread_id]
    failing: dict[str, FailingThread] = {}
    for everywhere in (False, True):
        groups: dict[tuple[str, ...], list[Any]] = {}
        for row in found:
            key = (row.user_id, row.agent) if everywhere else (row.user_id, row.agent, row.thread_id)
            groups.setdefault(key, []).append(row)
        for rows in groups.values():
            newest = rows[:IN_A_ROW]
            if len(newest) == IN_A_ROW and all(row.ended == "failed" and row.started_at >= since for row in newest):
                first = newest[0]
                one = FailingThread(first.user_id, first.agent, first.thread_id, first.error or "", everywhere)
                failing.setdefault(first.thread_id, one)
    return list(failing.values())


def begin(connection: Connection, begins: Sequence[Begin]) -> None:
    """Make these attempts the current ones: from now on only they may write steps."""
    columns = ("id", "user_id", "trigger", "delivery_id", "thread_id", "agent", "attempt", "started_at", "state")
    bulk.insert(connection, runs, columns, [(*b[:8], RUNNING) for b in begins if b.new])
    again = [(b.run_id, b.attempt, RUNNING, None, None, None, False) for b in begins if not b.new]
    bulk.update(connection, runs, ("id",), ("attempt", "state", "finished_at", "error", "ended", "woken"), again)


def end(connection: Connection, ends: Sequence[End]) -> None:
    """Store how these attempts ended; attempts that are no longer current change nothing."""
    key = ("id", "attempt")
    waiting = [(e.run_id, e.attempt, e.state, None, e.error) for e in ends if e.state not in ENDED]
    bulk.update(connection, runs, key, ("state", "finished_at", "error"), waiting)
    # A run that is continued later is not cancelled again by the same request.
    ended = [(e.run_id, e.attempt, e.state, e.at, e.error, e.ended, False) for e in ends if e.state in ENDED]
    bulk.update(connection, runs, key, ("state", "finished_at", "error", "ended", "cancel"), ended)


def is_parked(state: str | None = None) -> TextClause:
    """Return the condition that a run is parked, or is so in one state, by which the index of such runs is used."""
    states = ", ".join(f"'{each}'" for each in PARKED)
    parked = f"runs.state IN ({states})"
    # The condition of the index comes first as it is: SQLite does not see that one of the states is among them.
    return text(parked if state is None else f"{parked} AND runs.state = '{state}'")


def find_woken(connection: Connection, run_ids: Sequence[str]) -> set[str]:
    """Return those of these running runs that were woken since their attempts began, see `parking.wake`."""
    rows = [(run_id, True) for run_id in sorted(set(run_ids))]
    return {row[0] for row in bulk.find(connection, runs, ("id", "woken"), (), rows)}


def find_cancelled(connection: Connection, run_ids: Sequence[str]) -> set[str]:
    """Return those of these runs that a person asked to cancel."""
    rows = [(run_id, True) for run_id in sorted(set(run_ids))]
    return {row[0] for row in bulk.find(connection, runs, ("id", "cancel"), (), rows)}


async def cancelled_runs(database: Database, run_ids: Sequence[str]) -> set[str]:
    """Return those of these runs that a person asked to cancel, on any daemon. Raises `Unavailable`."""
    async with database.read() as connection:
        return await connection.run_sync(find_cancelled, run_ids)


def running_attempts(connection: Connection, run_ids: Iterable[str]) -> dict[str, int]:
    """Lock these runs until the transaction ends, in the order of their ids; return the attempts of those that run.

    Only such an attempt may write: it is the fence of everything that a run writes.
    """
    keys = sorted({(run_id,) for run_id in run_ids})
    found = bulk.find(connection, runs, ("id",), ("attempt", "state"), keys, lock="UPDATE")
    return {run_id: attempt for run_id, attempt, state in found if state == RUNNING}


async def count_parked_runs(database: Database, state: str) -> int:
    """Return the number of runs that are parked in this state. Raises `Unavailable`."""
    async with database.read() as connection:
        found = await connection.execute(select(func.count()).select_from(runs).where(is_parked(state)))
        return int(found.scalar_one())
