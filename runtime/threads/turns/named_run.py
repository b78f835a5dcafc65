"""A run that a person names by its id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, Connection, and_, select

from runtime.database.connection import Database
from runtime.database.schema import TURN_TABLES, deliveries, inputs, runs, thread_turns, threads
from runtime.errors import NotFound
from runtime.threads.removal.deletion import DELETED
from runtime.threads.run import RunRow
from runtime.threads.turns.turn import LIVING, WAITING

_ARRIVED: Final[Mapping[str, Column[Any]]] = {"delivery": deliveries.c.received_at, "message": inputs.c.created_at}
_COLUMNS: Final = [threads.c.id if name == "thread_id" else runs.c[name] for name in RunRow._fields]
_THREAD: Final = and_(threads.c.id == runs.c.thread_id, threads.c.kind != DELETED)


class TurnBefore(NamedTuple):
    """The turn that has a thread for which another one waits. `state` and `error`: of its run; with an error, it waits
    too."""

    state: str
    error: str | None


class NamedRun(NamedTuple):
    """A run, without its thread if that was deleted. `living`: the state of its turn, if that has not ended, else None;
    the run goes on then, also if it had ended before. `arrived_at`: when its turn arrived (Unix milliseconds); None if
    the turn is not stored any more. `before`: the turn for whose end it waits."""

    run: RunRow
    living: str | None
    arrived_at: int | None
    before: TurnBefore | None = None


async def named_run(database: Database, run_id: str, user_id: str) -> NamedRun:
    """Return this run of the user. Raises NotFound, `Unavailable`."""
    async with database.read() as connection:
        return await connection.run_sync(find_run, run_id, user_id)


def find_run(connection: Connection, run_id: str, user_id: str) -> NamedRun:
    """Return the same as `named_run`, within a transaction. Raises NotFound."""
    query = select(*_COLUMNS).select_from(runs).outerjoin(threads, _THREAD)
    row = connection.execute(query.where(runs.c.id == run_id, runs.c.user_id == user_id)).first()
    if row is None:
        raise NotFound(f"there is no run {run_id}", hint="`symbi agent runs` lists runs")
    run = RunRow(*row)
    table = TURN_TABLES[run.trigger]
    # A run without a delivery has the id of its turn.
    turn_id = run.delivery_id or run.id
    query = select(table.c.state, table.c.run_id, _ARRIVED[run.trigger]).where(table.c.id == turn_id)
    turn = connection.execute(query).first()
    if turn is None:
        return NamedRun(run, None, None)
    # A delivery that was redelivered from the beginning has another run.
    goes_on = turn.run_id == run.id and turn.state in LIVING
    before = _active_turn(connection, run.thread_id) if goes_on and turn.state == WAITING else None
    return NamedRun(run, turn.state if goes_on else None, turn[2], before)


def _active_turn(connection: Connection, thread_id: str | None) -> TurnBefore | None:
    """Return the turn that has a thread; None if none has, or if it has not begun yet."""
    query = select(thread_turns.c.turn_id, thread_turns.c.kind)
    query = query.where(thread_turns.c.thread_id == thread_id, thread_turns.c.active)
    active = connection.execute(query).first()
    if active is None:
        return None
    table = TURN_TABLES[active.kind]
    found = select(runs.c.state, runs.c.error).join(table, table.c.run_id == runs.c.id)
    row = connection.execute(found.where(table.c.id == active.turn_id)).first()
    return None if row is None else TurnBefore(*row)
