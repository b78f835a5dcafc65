"""A run that a person names by its id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, select

from runtime.database.connection import Database
from runtime.database.schema import TURN_TABLES, deliveries, inputs, runs
from runtime.errors import NotFound
from runtime.threads.run import RunRow
from runtime.threads.turns.turn import LIVING

_ARRIVED: Final[Mapping[str, Column[Any]]] = {"delivery": deliveries.c.received_at, "message": inputs.c.created_at}


class NamedRun(NamedTuple):
    """A run. `living`: the state of its turn, if that has not ended, else None; the run goes on then, also if it had
    ended before. `arrived_at`: when its turn arrived (Unix milliseconds); None if the turn is not stored any more."""

    run: RunRow
    living: str | None
    arrived_at: int | None


async def named_run(database: Database, run_id: str, user_id: str) -> NamedRun:
    """Return this run of the user. Raises NotFound, `Unavailable`."""
    query = select(*runs.c[*RunRow._fields]).where(runs.c.id == run_id, runs.c.user_id == user_id)
    async with database.read() as connection:
        row = (await connection.execute(query)).first()
        if row is None:
            raise NotFound(f"there is no run {run_id}", hint="`symbi agent runs` lists runs")
        run = RunRow(*row)
        table = TURN_TABLES[run.trigger]
        # A run without a delivery has the id of its turn.
        turn_id = run.delivery_id or run.id
        query = select(table.c.state, table.c.run_id, _ARRIVED[run.trigger]).where(table.c.id == turn_id)
        turn = (await connection.execute(query)).first()
    if turn is None:
        return NamedRun(run, None, None)
    # A delivery that was redelivered from the beginning has another run.
    goes_on = turn.run_id == run.id and turn.state in LIVING
    return NamedRun(run, turn.state if goes_on else None, turn[2])
