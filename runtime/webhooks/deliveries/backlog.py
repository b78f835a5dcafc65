"""How much is accepted and not handled yet: asked of the database for whoever watches over it."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import text

from runtime.clock import Clock, milliseconds
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.threads.turns.turn import AGENT_GONE, QUEUED, RUNNING

FRESH_SECONDS: Final = 1.0
"""How long an answer holds: who asks more often makes the database no work."""


class Backlog(NamedTuple):
    """Of the whole database, whichever daemon accepted them."""

    states: dict[str, int]
    """Deliveries by state: `queued`, `running`, `agent_gone`."""
    dead: int
    """Dead letters."""
    oldest_seconds: float
    """For how long one has been due that nobody has claimed; 0 when there is none."""


# Each count reads a small index over its own part of the table, which is not used unless the states stand in the text.
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
    """Knows the backlog as it was at most a second ago, once `look` has returned."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._asked = -FRESH_SECONDS
        self.last: Backlog | None = None
        """None: the database did not say."""

    async def look(self) -> None:
        """Ask, unless that was done a moment ago. Whoever is cancelled while asking leaves it unknown."""
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
