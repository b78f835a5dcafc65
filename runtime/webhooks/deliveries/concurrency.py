"""Lanes: the deliveries of a webhook with `concurrency` wait in a line of its own for one of its places.

A claim that finds such a delivery puts it into its lane, so that however many wait there, the next claim does not meet
them again, and the deliveries of other webhooks are found as quickly as ever. A lane is served in the order in which
its deliveries came, as far as their time has come: one that failed waits for its next try, lets the others pass, and is
the first again when that time has come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from runtime.database import bulk
from runtime.database.schema import deliveries, runs
from runtime.threads import run
from runtime.webhooks.deliveries.claimable import COLUMNS, DATABASE_NOW
from runtime.webhooks.deliveries.delivery import QUEUED, RUNNING

LOCK: Final = 0x73796C616E65  # "sylane": the advisory lock of the transaction that counts places and takes them


def turn(connection: Connection) -> bool:
    """Whether this transaction may serve the lanes, on PostgreSQL; another daemon does so until its commit otherwise.

    Two daemons that counted at the same time would both take the last place, and two that lined up would each see
    only a part of the line.
    """
    return bool(connection.execute(_TRY_LOCK, {"lock": LOCK}).scalar_one())


def line_up(connection: Connection, rows: Sequence[Any]) -> None:
    """Put claimable deliveries into the lanes of their webhooks, those too whose lease has run out."""
    bulk.update(
        connection,
        deliveries,
        ("id",),
        ("state", "lane", "lease_until"),
        [(row.id, QUEUED, row.webhook, None) for row in rows],
    )
    broken_off = [(row.run_id, run.WAITING) for row in rows if row.state == RUNNING and row.run_id]
    bulk.update(connection, runs, ("id",), ("state",), broken_off)


def take(connection: Connection, concurrency: Mapping[str, int], now: int, limit: int, *, shared: bool) -> list[Any]:
    """Up to `limit` deliveries of each lane, no more than it has free places: the oldest whose time has come.

    `concurrency`: places by webhook; a lane without a number here has any number of them. The caller, whose `turn` it
    is, makes those that it takes running in the same transaction.
    """
    waiting = list(connection.execute(_LANES).scalars())
    if not waiting:
        return []
    running = Counter({row.webhook: row.count for row in connection.execute(_RUNNING[shared])})
    found: list[Any] = []
    for lane in waiting:
        places = min(limit, concurrency[lane] - running[lane]) if lane in concurrency else limit
        if places > 0:
            found += connection.execute(_NEXT[shared], {"lane": lane, "now": now, "places": places}).all()
    return found


# One look into the index for each lane, however many deliveries wait there. SQLite and PostgreSQL take the least of
# nothing for NULL, which ends it.
_LANES = text("""
    WITH RECURSIVE lanes(lane) AS (
        SELECT min(lane) FROM deliveries WHERE state = 'queued' AND lane IS NOT NULL
        UNION ALL
        SELECT (SELECT min(lane) FROM deliveries
                WHERE state = 'queued' AND lane IS NOT NULL AND deliveries.lane > lanes.lane)
        FROM lanes WHERE lanes.lane IS NOT NULL
    )
    SELECT lane FROM lanes WHERE lane IS NOT NULL
""")

_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(:lock)")

_ALL_RUNNING = "SELECT webhook, count(*) AS count FROM deliveries WHERE state = 'running'"
_RUNNING = {
    False: text(f"{_ALL_RUNNING} GROUP BY webhook"),
    True: text(f"{_ALL_RUNNING} AND lease_until >= {DATABASE_NOW} GROUP BY webhook"),
}

_ONE_LANE = f"""
    SELECT {COLUMNS} FROM deliveries WHERE state = 'queued' AND lane IS NOT NULL AND lane = :lane
    AND next_attempt_at <= :now ORDER BY id LIMIT :places
"""  # noqa: S608 - constants
_NEXT = {False: text(_ONE_LANE), True: text(f"{_ONE_LANE} FOR UPDATE SKIP LOCKED")}
