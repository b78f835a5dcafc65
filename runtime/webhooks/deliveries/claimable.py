"""Which deliveries can be claimed: those whose time has come, and those whose daemon did not renew its lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

DATABASE_NOW: Final = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
"""PostgreSQL's own time in Unix milliseconds, as SQL: leases go by it, for the daemons' clocks may differ."""

COLUMNS: Final = (
    "id, user_id, webhook, agent, provider, provider_delivery_id, event, received_at, source, content_type, headers, "
    "verified, attempt, tries, run_id, state, next_attempt_at, size"
)
"""What a claim has to know of a delivery."""


def claimable(
    connection: Connection, now: int, limit: int, *, shared: bool, without: Sequence[str] | None = None
) -> list[Any]:
    """Up to `limit` deliveries that are in no lane: those first whose leases have run out, then those whose time came
    first. `now`: Unix milliseconds. `shared`: on PostgreSQL, where they are locked and other daemons' left alone;
    `without`: webhooks whose deliveries are not wanted then."""
    if not shared:
        return list(connection.execute(DUE[False], {"now": now, "limit": limit}))
    given: dict[str, Any] = {"limit": limit} if without is None else {"limit": limit, "limited": list(without)}
    found = list(connection.execute(BROKEN_OFF if without is None else BROKEN_OFF_OF_OTHERS, given))
    if len(found) < limit:
        given |= {"now": now, "limit": limit - len(found)}
        found += connection.execute(DUE[True] if without is None else DUE_OF_OTHERS, given).all()
    return found


_WANTED = f"""
    SELECT {COLUMNS} FROM deliveries WHERE state = 'queued' AND lane IS NULL AND next_attempt_at <= :now
"""  # noqa: S608 - constants
# The states stand in the text: an index over a part of the table is not used for a parameter.
_FIRST = "ORDER BY next_attempt_at LIMIT :limit"
_OTHERS = "AND webhook <> ALL(CAST(:limited AS TEXT[]))"
_SKIP = "FOR UPDATE SKIP LOCKED"
DUE = {False: text(f"{_WANTED} {_FIRST}"), True: text(f"{_WANTED} {_FIRST} {_SKIP}")}
DUE_OF_OTHERS = text(f"{_WANTED} {_OTHERS} {_FIRST} {_SKIP}")
# A query of its own: one with OR would sort all that waits for each claim.
_ALL_BROKEN_OFF = f"""
    SELECT {COLUMNS} FROM deliveries WHERE state = 'running'
    AND lease_until < {DATABASE_NOW}
"""  # noqa: S608 - constants
BROKEN_OFF = text(f"{_ALL_BROKEN_OFF} ORDER BY lease_until LIMIT :limit {_SKIP}")
BROKEN_OFF_OF_OTHERS = text(f"{_ALL_BROKEN_OFF} {_OTHERS} ORDER BY lease_until LIMIT :limit {_SKIP}")
