"""Recovery of turns that are stored as running and do not run (SQLite; on PostgreSQL their leases expire)."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, Table, text

from runtime.database import bulk
from runtime.database.schema import runs
from runtime.threads import run
from runtime.threads.turns.claimable import tries_after_kill
from runtime.threads.turns.turn import QUEUED


def requeue_running(connection: Connection, table: Table, now: int) -> int:
    """Requeue the turns that were running when the last daemon was killed, as suspects; return how many suspects wait.

    `now`: Unix milliseconds. A kill counts as a try only of a turn that was a suspect already and, as everywhere,
    recorded no result.
    """
    name = table.name
    connection.execute(
        text(f"UPDATE runs SET state = 'waiting' WHERE id IN (SELECT run_id FROM {name} WHERE state = 'running')")  # noqa: S608
    )
    tries = tries_after_kill(name, "CASE WHEN suspect THEN tries ELSE tries - 1 END")
    requeue = f"""
        UPDATE {name} SET state = 'queued', next_attempt_at = :now, suspect = true, tries = {tries}
        WHERE state = 'running'
    """  # noqa: S608 - the name of a table
    connection.execute(text(requeue), {"now": now})
    count = f"SELECT count(*) FROM {name} WHERE state = 'queued' AND suspect"  # noqa: S608
    return int(connection.execute(text(count)).scalar_one())


def release_others(connection: Connection, table: Table, held: Collection[str]) -> None:
    """Requeue the turns that are stored as running and whose ids are not among `held`: a claim that failed was stored
    nevertheless. It does not count as a try."""
    query = text(f"SELECT id, run_id, tries FROM {table.name} WHERE state = 'running'")  # noqa: S608
    others = [row for row in connection.execute(query) if row.id not in held]
    bulk.update(connection, table, ("id",), ("state", "tries"), [(row.id, QUEUED, row.tries - 1) for row in others])
    bulk.update(connection, runs, ("id",), ("state",), [(row.run_id, run.WAITING) for row in others])
