"""Claimable turns: those that are due, and those whose daemon did not renew its lease."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, text

DATABASE_NOW: Final = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
"""PostgreSQL's own time in Unix milliseconds, as SQL: leases use it, because the daemons' clocks may differ."""

COLUMNS: Final = ("id", "user_id", "agent", "attempt", "tries", "run_id", "state", "next_attempt_at")
"""Columns of every turn that a claim reads."""

_SKIP: Final = "FOR UPDATE SKIP LOCKED"


def tries_after_kill(table: str, otherwise: str = "tries") -> str:
    """Return the tries, as SQL, of a turn of this table whose attempt was ended by a kill of its daemon: 0 if the
    attempt recorded the result of a step, else `otherwise`.

    A result is recorded once, so the run got further in this attempt than in those before it. A run whose next step
    kills the daemon records none.
    """
    # Counted, because PostgreSQL could read all steps at once for EXISTS.
    results = f"""
        SELECT count(*) FROM steps
        WHERE steps.run_id = {table}.run_id AND steps.attempt = {table}.attempt AND steps.state = 'done'
    """  # noqa: S608 - names of columns
    return f"CASE WHEN ({results}) > 0 THEN 0 ELSE {otherwise} END"


class ClaimQueries:
    """The SQL that finds the claimable turns of one table.

    `group`: the column by which concurrency is limited, read as `queue_group`. `arrived`: the column with the time at
    which a turn came, read as `arrived_at`. The states are constants in the text: a partial index is not used for a
    parameter.
    """

    def __init__(self, table: str, columns: Sequence[str], *, group: str, arrived: str) -> None:
        names = list(dict.fromkeys((*COLUMNS, *columns)))
        more = f"{group} AS queue_group, {arrived} AS arrived_at FROM {table}"
        self.select = f"SELECT {', '.join(names)}, {more}"
        wanted = f"{self.select} WHERE state = 'queued' AND lane IS NULL AND next_attempt_at <= :now AND NOT suspect"
        first = "ORDER BY next_attempt_at, id LIMIT :limit"
        others = f"AND ({group} IS NULL OR {group} <> ALL(CAST(:limited AS TEXT[])))"
        self.due = {False: text(f"{wanted} {first}"), True: text(f"{wanted} {first} {_SKIP}")}
        self.due_of_others = text(f"{wanted} {others} {first} {_SKIP}")
        # Those that got further when they were interrupted, or were interrupted once, come first; among them those with
        # the fewest attempts, so that a run which kills the daemon at each of its steps does not keep others waiting.
        self.suspects = text(f"{self.select} WHERE state = 'queued' AND suspect ORDER BY tries, attempt, id LIMIT 1")
        # A query of its own: one with OR would sort all waiting turns for each claim.
        killed = [f"{tries_after_kill(table)} AS tries" if name == "tries" else name for name in names]
        expired = f"SELECT {', '.join(killed)}, {more} WHERE state = 'running' AND lease_until < {DATABASE_NOW}"
        self.expired = text(f"{expired} ORDER BY lease_until LIMIT :limit {_SKIP}")
        self.expired_of_others = text(f"{expired} {others} ORDER BY lease_until LIMIT :limit {_SKIP}")

    def claimable(
        self, connection: Connection, now: int, limit: int, *, shared: bool, without: Sequence[str] | None = None
    ) -> list[Any]:
        """Return up to `limit` turns that are in no concurrency queue: first those with expired leases, then the others
        by due time, those that are due at the same time in the order of their ids, which is that of their arrival.

        `now`: Unix milliseconds. `shared`: on PostgreSQL, where they are locked and those locked by other daemons
        skipped; `without`: groups whose turns are left out then. Of a turn with an expired lease, `tries` are those
        after the kill of its daemon.
        """
        if not shared:
            return list(connection.execute(self.due[False], {"now": now, "limit": limit}))
        given: dict[str, Any] = {"limit": limit} if without is None else {"limit": limit, "limited": list(without)}
        found = list(connection.execute(self.expired if without is None else self.expired_of_others, given))
        if len(found) < limit:
            given |= {"now": now, "limit": limit - len(found)}
            found += connection.execute(self.due[True] if without is None else self.due_of_others, given).all()
        return found


@cache
def claim_queries(table: str, columns: tuple[str, ...], group: str, arrived: str) -> ClaimQueries:
    """Return the queries of one table; created once, so that SQLAlchemy caches their compiled form."""
    return ClaimQueries(table, columns, group=group, arrived=arrived)
