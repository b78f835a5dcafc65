"""The turns that a claim takes next: those that are due, and have a place in their concurrency queue."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection, Table

from runtime.clock import Clock
from runtime.threads.turns.claimable import ClaimQueries
from runtime.threads.turns.concurrency import ConcurrencyLimits, queue_by_group, queue_queries, try_lock_queues

QUEUED_AT_A_TIME: Final = 128
"""Number of turns moved into concurrency queues in one batch."""

ROUNDS: Final = 2
"""Maximum number of such batches per claim: on SQLite they block the event loop."""

LEFT_QUEUES_SECONDS: Final = 30.0
"""Interval of reading concurrency queues if no group has a limit: one that had a limit before may have turns there."""

LOCKED_SECONDS: Final = 0.02
"""Seconds until the concurrency queues are read again after another daemon had locked them."""


class DueTurns:
    """The due turns of one table, with or without concurrency queues."""

    def __init__(
        self,
        table: Table,
        group: str,
        queries: ClaimQueries,
        clock: Clock,
        limits: Callable[[], ConcurrencyLimits],
        *,
        shared: bool,
    ) -> None:
        """`group`: the column by which concurrency is limited. `limits`: returns the current limits, called at each
        claim. `shared`: on PostgreSQL, with other daemons."""
        self.again: float | None = None
        """Seconds after which another claim should follow the last one, whatever it found; None: when something
        happens."""
        self._table = table
        self._queries = queries
        self._queue_queries = queue_queries(table.name, group, queries)
        self._clock = clock
        self._limits = limits
        self._shared = shared
        self._queues_read_at = -LEFT_QUEUES_SECONDS

    def find(self, connection: Connection, now: int, limit: int) -> list[Any]:
        """Return up to `limit` turns that are due and have a place in their queue, the longest waiting first.

        `now`: Unix milliseconds. The caller sets them to running in the same transaction.
        """
        limits = self._limits()
        self.again = None
        if self._shared and limits.any and not try_lock_queues(connection):
            self.again = LOCKED_SECONDS
            if limits.others is not None:
                return []
            return self._queries.claimable(connection, now, limit, shared=True, without=list(limits.by_group))
        found: list[Any] = []
        wanted = limit
        for _ in range(ROUNDS):
            rows = self._queries.claimable(connection, now, wanted, shared=self._shared)
            limited = [row for row in rows if limits.of(row.queue_group) is not None]
            found = [row for row in rows if limits.of(row.queue_group) is None]
            queue_by_group(connection, self._table, limited)
            if len(found) >= limit or len(rows) < wanted:
                break
            wanted = limit + QUEUED_AT_A_TIME
        else:
            self.again = 0.0
        chosen = [(row.next_attempt_at, row.id, row) for row in found]
        # A turn in a queue keeps its place by arrival, also if it is retried.
        chosen += [(row.arrived_at, row.id, row) for row in self._from_queues(connection, limits, now, limit)]
        return [row for *_, row in sorted(chosen, key=itemgetter(0, 1))[:limit]]

    def _from_queues(self, connection: Connection, limits: ConcurrencyLimits, now: int, limit: int) -> list[Any]:
        read_at = self._clock.monotonic()
        if not limits.any and read_at - self._queues_read_at < LEFT_QUEUES_SECONDS:
            return []
        rows = self._queue_queries.claimable(connection, limits, now, limit, shared=self._shared)
        if not limits.any and not rows:
            self._queues_read_at = read_at
        return rows
