"""Concurrency queues: the turns of a group with a limit wait in a queue of their own.

A group is a value of one column, such as a delivery's webhook. A claim that finds a turn of a limited group puts it
into the group's queue (the column `lane`): however many wait there, the next claim does not read them again, and the
turns of other groups are found as quickly as before. A queue is served in order of arrival, among turns that are due: a
failed turn lets the others pass until its next try is due, and is then first again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Table, text

from runtime.database import bulk
from runtime.database.schema import runs
from runtime.threads import run
from runtime.threads.turns.claimable import DATABASE_NOW, ClaimQueries
from runtime.threads.turns.turn import QUEUED, RUNNING

LOCK: Final = 0x73796C616E65
"""The advisory lock of the transaction that counts the running turns of limited groups and claims more of them."""


class ConcurrencyLimits(NamedTuple):
    """Maximum numbers of concurrent turns of each group."""

    by_group: Mapping[str, int] = MappingProxyType({})
    others: int | None = None
    """The limit of every group that is not in `by_group`; None: no limit."""

    def of(self, group: str | None) -> int | None:
        """Return the limit of one group; None when it has none, and for turns without a group."""
        return None if group is None else self.by_group.get(group, self.others)

    @property
    def any(self) -> bool:
        """True if some group has a limit."""
        return bool(self.by_group) or self.others is not None


UNLIMITED: Final = ConcurrencyLimits()


def try_lock_queues(connection: Connection) -> bool:
    """Try to take the advisory lock for the concurrency queues (PostgreSQL). False: another daemon has it until it
    commits.

    Two daemons that counted at the same time would both take the last place, and two that filled a queue would each see
    only a part of it.
    """
    return bool(connection.execute(_TRY_LOCK, {"lock": LOCK}).scalar_one())


def queue_by_group(connection: Connection, table: Table, rows: Sequence[Any]) -> None:
    """Put claimable turns into the queues of their groups, also those whose lease has expired."""
    queued = [(row.id, QUEUED, row.queue_group, None, row.tries) for row in rows]
    bulk.update(connection, table, ("id",), ("state", "lane", "lease_until", "tries"), queued)
    expired = [(row.run_id, run.WAITING) for row in rows if row.state == RUNNING and row.run_id]
    bulk.update(connection, runs, ("id",), ("state",), expired)


class QueueQueries:
    """The SQL that finds the claimable turns in the concurrency queues of one table."""

    def __init__(self, table: str, group: str, select: str) -> None:
        # One index lookup for each queue, however many turns wait there. In SQLite and PostgreSQL the minimum of no
        # rows is NULL, which ends the recursion.
        self._waiting = text(f"""
            WITH RECURSIVE lanes(lane) AS (
                SELECT min(lane) FROM {table} WHERE state = 'queued' AND lane IS NOT NULL
                UNION ALL
                SELECT (SELECT min(lane) FROM {table}
                        WHERE state = 'queued' AND lane IS NOT NULL AND {table}.lane > lanes.lane)
                FROM lanes WHERE lanes.lane IS NOT NULL
            )
            SELECT lane FROM lanes WHERE lane IS NOT NULL
        """)  # noqa: S608 - names of columns
        running = f"SELECT {group} AS queue_group FROM {table} WHERE state = 'running'"  # noqa: S608
        # A suspect keeps its place until it runs again.
        suspects = f"SELECT {group} AS queue_group FROM {table} WHERE state = 'queued' AND suspect"  # noqa: S608
        count = "SELECT queue_group, count(*) AS count FROM"
        self._running = {
            False: text(f"{count} ({running} UNION ALL {suspects}) AS places GROUP BY queue_group"),
            True: text(f"{count} ({running} AND lease_until >= {DATABASE_NOW}) AS places GROUP BY queue_group"),
        }
        of_one = f"""
            {select} WHERE state = 'queued' AND lane IS NOT NULL AND lane = :lane
            AND next_attempt_at <= :now AND NOT suspect ORDER BY id LIMIT :places
        """
        self._next = {False: text(of_one), True: text(f"{of_one} FOR UPDATE SKIP LOCKED")}

    def claimable(
        self, connection: Connection, limits: ConcurrencyLimits, now: int, limit: int, *, shared: bool
    ) -> list[Any]:
        """Return up to `limit` turns of each queue, no more than it has free places: the oldest that are due.

        A queue whose group has no limit now has unlimited places. The caller has the lock (`try_lock_queues`) and sets
        the claimed turns to running in the same transaction.
        """
        waiting = list(connection.execute(self._waiting).scalars())
        if not waiting:
            return []
        running = Counter({row.queue_group: row.count for row in connection.execute(self._running[shared])})
        found: list[Any] = []
        for lane in waiting:
            most = limits.of(lane)
            places = limit if most is None else min(limit, most - running[lane])
            if places > 0:
                given = {"lane": lane, "now": now, "places": places}
                found += connection.execute(self._next[shared], given).all()
        return found


@cache
def queue_queries(table: str, group: str, queries: ClaimQueries) -> QueueQueries:
    """Return the queries of one table; created once, so that SQLAlchemy caches their compiled form."""
    return QueueQueries(table, group, queries.select)


_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(:lock)")
