"""Parked turns: they wait for a decision or a time, and are not tried before, unless who decides wakes them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, select, text

from runtime.database import bulk
from runtime.database.schema import TURN_TABLES, runs
from runtime.threads import run
from runtime.threads.turns.turn import QUEUED, RUNNING, Outcome

RECHECK_MS: Final = 300_000
"""Milliseconds after which a parked turn is tried at the latest, on a shared database: a claim by another daemon while
`wake` runs may miss what is decided."""


def wake(
    connection: Connection,
    state: str,
    now: int,
    *,
    user_id: str | None = None,
    agent: str | None = None,
    run_ids: Collection[str] | None = None,
) -> int:
    """Make the turns due whose runs are parked in this state, of a user, an agent or these runs; return their number.

    Call it in the transaction that stores what they wait for, after that was written, and wake the dispatcher
    afterwards. Runs that run meanwhile are noted, and do not park for what was decided. `now`: Unix milliseconds.
    """
    wanted: list[ColumnElement[bool]] = []
    if user_id is not None:
        wanted.append(runs.c.user_id == user_id)
    if agent is not None:
        wanted.append(runs.c.agent == agent)
    if run_ids is not None:
        wanted.append(runs.c.id.in_(run_ids))
    # First, so that an attempt that is ending has ended, and its run is among the parked ones read next.
    running = [run_id for table in TURN_TABLES.values() for run_id in _lock_running(connection, table, wanted)]
    bulk.update(connection, runs, ("id",), ("woken",), [(run_id, True) for run_id in sorted(running)])
    columns = runs.c["id", "trigger", "delivery_id"]
    found = connection.execute(select(*columns).where(run.is_parked(state), *wanted)).all()
    # A run without a delivery has the id of its turn.
    turns = sorted((row.delivery_id or row.id, row.id, row.trigger) for row in found)
    woken: list[str] = []
    for trigger, table in TURN_TABLES.items():
        parked = {turn_id: run_id for turn_id, run_id, kind in turns if kind == trigger}
        rows = bulk.find(connection, table, ("id",), ("state", "run_id"), [(each,) for each in parked], lock="UPDATE")
        queued = [turn_id for turn_id, state, run_id in rows if state == QUEUED and run_id == parked[turn_id]]
        bulk.update(connection, table, ("id",), ("next_attempt_at",), [(each, now) for each in queued])
        woken += [parked[each] for each in queued]
    waiting = [(run_id, run.WAITING, None) for run_id in sorted(woken)]
    bulk.update(connection, runs, ("id",), ("state", "error"), waiting)
    return len(woken)


def parked_outcome(outcome: Outcome, at: int, *, woken: bool, shared: bool) -> Outcome:
    """Return the outcome of an attempt that parks its turn, as it is stored at `at` (Unix milliseconds). `woken`: what
    it waits for was decided during the attempt, so another one follows."""
    assert outcome.until is not None
    if woken:
        return outcome._replace(until=None, wait=0.0, run_state=None, frees_thread=False)
    if shared and outcome.run_state != run.AWAITING:
        return outcome._replace(until=min(outcome.until, at + RECHECK_MS))
    return outcome


def _lock_running(connection: Connection, table: Table, wanted: list[ColumnElement[bool]]) -> list[str]:
    """Lock the running turns whose runs are wanted; return the ids of these runs."""
    # A constant in the text: the partial index is not used for a parameter, nor if the turns are to be sorted.
    theirs = select(table.c.id).where(text(f"{table.name}.state = '{RUNNING}'"))
    if wanted:
        theirs = theirs.where(table.c.run_id.in_(select(runs.c.id).where(*wanted)))
    keys = sorted((each,) for each in connection.execute(theirs).scalars())
    found = bulk.find(connection, table, ("id",), ("state", "run_id"), keys, lock="UPDATE")
    return [run_id for _, state, run_id in found if state == RUNNING]
