"""The number of accepted deliveries that are not handled yet, for readiness and metrics."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import text

from runtime.clock import Clock, milliseconds
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.threads.turns.turn import AGENT_GONE, QUEUED, RUNNING

FRESH_SECONDS: Final = 1.0
"""Seconds for which a result is reused before the next query."""


class Backlog(NamedTuple):
    """The backlog of the whole database, whichever daemon accepted the deliveries."""

    states: dict[str, int]
    """Deliveries by state: `queued`, `running`, `agent_gone`."""
    dead: int
    """Dead letters."""
    oldest_seconds: float
    """Time since the longest waiting delivery became claimable; 0 when none waits."""


# Each count reads a partial index, which is used only if the states are constants in the text.
_QUERY = text("""
    SELECT
        (SELECT count(*) FROM deliveries WHERE state = 'queued' AND lane IS NULL),
        (SELECT count(*) FROM deliveries WHERE state = 'queued' AND lane IS NOT NULL),
        (SELECT count(*) FROM deliveries WHERE state = 'running'),
        (SELECT count(*) FROM deliveries WHERE state = 'agent_gone'),
        (SELECT count(*) FROM deliveries WHERE state = 'dead'),
        (SELECT min(next_attempt_at) FROM deliveries WHERE state = 'queued' AND lane IS NULL),
        (SELECT min(next_attempt_at) FROM deliveries WHERE state = 'queued' AND lane IS NOT NULL)
""")


class BacklogReader:
    """The backlog, at most a second old once `look` has returned."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._asked = -FRESH_SECONDS
        self.last: Backlog | None = None
        """None: the database is unavailable."""

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
        self.last = self._backlog(*row)
        self._asked = self._clock.monotonic()

    def _backlog(
        self, free: int, in_lanes: int, running: int, gone: int, dead: int, first: int | None, next_one: int | None
    ) -> Backlog:
        now = milliseconds(self._clock)
        due = min((each for each in (first, next_one) if each is not None), default=now)
        states = {QUEUED: free + in_lanes, RUNNING: running, AGENT_GONE: gone}
        return Backlog(states, dead, max(0, now - due) / 1000)
