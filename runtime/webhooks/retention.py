"""Forgetting: what ended long ago goes, in small transactions between which others write."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, delete, select, text

from runtime.clock import Clock, milliseconds
from runtime.database import Database, bulk
from runtime.database.schema import attempts, bodies, deliveries, replay_keys, runs, steps

CHUNK = 500
"""Rows that one transaction deletes at most."""

KEY_MARGIN_MS = 86_400_000
"""Replay keys stay a day longer than a copy of their request would be fresh, should the clock be set back."""


async def prune(database: Database, clock: Clock, *, keep_seconds: float) -> int:
    """Delete deliveries (their bodies, runs and steps with them) and audit rows that ended more than `keep_seconds`
    ago, and replay keys that have expired; return how many. What still waits or runs stays, however old."""
    now = milliseconds(clock)
    before = now - int(keep_seconds * 1000)
    return (
        await _chunks(database, lambda connection: _deliveries(connection, before))
        + await _chunks(database, lambda connection: _attempts(connection, before))
        + await _chunks(database, lambda connection: _keys(connection, now - KEY_MARGIN_MS))
    )


async def _chunks(database: Database, chunk: Callable[[Connection], int]) -> int:
    deleted = count = await database.transact(chunk)
    while count >= CHUNK:
        count = await database.transact(chunk)
        deleted += count
    return deleted


def _deliveries(connection: Connection, before: int) -> int:
    query = text(
        "SELECT id FROM deliveries WHERE id < :oldest AND state NOT IN ('queued', 'running') "
        "AND coalesce(finished_at, received_at) < :before ORDER BY id LIMIT :chunk"
    )
    # An id begins with the time it was made at, and nothing ends before it is received.
    oldest = f"{max(before, 0):012x}"
    given = {"oldest": f"{oldest[:8]}-{oldest[8:]}", "before": before, "chunk": CHUNK}
    gone = [row[0] for row in connection.execute(query, given)]
    ended = [row[1] for row in bulk.find(connection, runs, ("delivery_id",), ("id",), [(row,) for row in gone])]
    bulk.delete(connection, steps, "run_id", ended)
    bulk.delete(connection, runs, "id", ended)
    bulk.delete(connection, bodies, "delivery_id", gone)
    bulk.delete(connection, deliveries, "id", gone)
    return len(gone)


def _attempts(connection: Connection, before: int) -> int:
    old = select(attempts.c.id).where(attempts.c.received_at < before).limit(CHUNK)
    return connection.execute(delete(attempts).where(attempts.c.id.in_(old))).rowcount


def _keys(connection: Connection, before: int) -> int:
    """The oldest of the expired ones, and those that expired in the same millisecond as the last of them."""
    expires = replay_keys.c.expires_at
    last = connection.execute(select(expires).order_by(expires).offset(CHUNK - 1).limit(1)).scalar()
    until = before if last is None else min(before, last + 1)
    return connection.execute(delete(replay_keys).where(expires < until)).rowcount
