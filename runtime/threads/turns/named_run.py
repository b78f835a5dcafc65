"""A run that a person names by its id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, Connection, and_, select

from runtime.database.connection import Database
from runtime.database.schema import TURN_TABLES, deliveries, inputs, runs, threads
from runtime.errors import NotFound
from runtime.threads.deletion import DELETED
from runtime.threads.run import RunRow
from runtime.threads.turns.turn import LIVING

_ARRIVED: Final[Mapping[str, Column[Any]]] = {"delivery": deliveries.c.received_at, "message": inputs.c.created_at}
_COLUMNS: Final = [threads.c.id if name == "thread_id" else runs.c[name] for name in RunRow._fields]
_THREAD: Final = and_(threads.c.id == runs.c.thread_id, threads.c.kind != DELETED)


class NamedRun(NamedTuple):
    """A run, without its thread if that was deleted. `living`: the state of its turn, if that has not ended, else None;
    the run goes on then, also if it had ended before. `arrived_at`: when its turn arrived (Unix milliseconds); None if
    the turn is not stored any more."""

    run: RunRow
    living: str | None
    arrived_at: int | None


async def named_run(database: Database, run_id: str, user_id: str) -> NamedRun:
    """Return this run of the user. Raises NotFound, `Unavailable`."""
    async with database.read() as connection:
        return await connection.run_sync(find_run, run_id, user_id)


def find_run(connection: Connection, run_id: str, user_id: str) -> NamedRun:
    """Return what `named_run` does, within a transaction. Raises NotFound."""
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
    return NamedRun(run, turn.state if goes_on else None, turn[2])
