"""The backlog: how many turns of each kind are not handled yet, for readiness and metrics."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from sqlalchemy import text

from runtime.clock import Clock, milliseconds
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import TURN_TABLES
from runtime.threads.turns.turn import AGENT_GONE, QUEUED, RUNNING, WAITING

FRESH_SECONDS: Final = 1.0
"""Seconds for which a result is reused before the next query."""


class Backlog(NamedTuple):
    """The backlog of one kind of turn in the whole database, whichever daemon accepted the turns."""

    states: dict[str, int]
    """Turns by state: `queued`, `running`, `waiting`, `agent_gone`."""
    dead: int
    """Dead letters."""
    oldest_seconds: float
    """Time since the longest waiting turn became claimable; 0 when none waits."""


# Each count reads a partial index, which is used only if the states are constants in the text.
_COUNTS: Final = """
    (SELECT count(*) FROM {table} WHERE state = 'queued' AND lane IS NULL),
    (SELECT count(*) FROM {table} WHERE state = 'queued' AND lane IS NOT NULL),
    (SELECT count(*) FROM {table} WHERE state = 'running'),
    (SELECT count(*) FROM {table} WHERE state = 'waiting'),
    (SELECT count(*) FROM {table} WHERE state = 'agent_gone'),
    (SELECT count(*) FROM {table} WHERE state = 'dead'),
    (SELECT min(next_attempt_at) FROM {table} WHERE state = 'queued' AND lane IS NULL),
    (SELECT min(next_attempt_at) FROM {table} WHERE state = 'queued' AND lane IS NOT NULL)
"""
_WIDTH: Final = 8
"""Columns for each kind of turn."""
_QUERY = text("SELECT" + ",".join(_COUNTS.format(table=table.name) for table in TURN_TABLES.values()))


class BacklogReader:
    """The backlog, at most a second old once `look` has returned."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._asked = -FRESH_SECONDS
        self.last: dict[str, Backlog] | None = None
        """By kind of turn, such as `delivery`. None: the database is unavailable."""

    @property
    def all(self) -> Backlog | None:
        """The backlog of all kinds of turn together."""
        if self.last is None:
            return None
        states: Counter[str] = Counter()
        for each in self.last.values():
            states.update(each.states)
        oldest = max(each.oldest_seconds for each in self.last.values())
        return Backlog(dict(states), sum(each.dead for each in self.last.values()), oldest)

    async def look(self) -> None:
        """Read the backlog unless it is fresh. Cancelled in the middle, it leaves `last` None."""
        if self.last is not None and self._clock.monotonic() - self._asked < FRESH_SECONDS:
            return
        self.last = None
        try:
            async with self._database.read() as connection:
                row = (await connection.execute(_QUERY)).one()
        except Unavailable:
            return
        self.last = {
            kind: self._backlog(*row[place * _WIDTH : (place + 1) * _WIDTH]) for place, kind in enumerate(TURN_TABLES)
        }
        self._asked = self._clock.monotonic()

    def _backlog(
        self,
        free: int,
        in_lanes: int,
        running: int,
        waiting: int,
        gone: int,
        dead: int,
        first: int | None,
        next_one: int | None,
    ) -> Backlog:
        now = milliseconds(self._clock)
        due = min((each for each in (first, next_one) if each is not None), default=now)
        states = {QUEUED: free + in_lanes, RUNNING: running, WAITING: waiting, AGENT_GONE: gone}
        return Backlog(states, dead, max(0, now - due) / 1000)
