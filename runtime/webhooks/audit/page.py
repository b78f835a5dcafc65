"""The audit of one webhook, page by page, newest first."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import literal, null, select

from runtime.database.connection import Database
from runtime.database.schema import attempts, deliveries, runs
from runtime.webhooks.deliveries.delivery import Headers

_SHARED = ("id", "user_id", "received_at", "source", "event", "size", "body_sha256", "headers", "verified")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One request, or `count` alike refusals."""

    id: str
    """Begins with the time it came in, so that entries are in order of their ids."""
    received_at: int
    """Unix milliseconds; of the newest, where several are one entry."""
    verdict: str
    """`accepted`, `refused`, `filtered`, `repeated`, `handshake`."""
    reason: str | None
    """None for an accepted one."""
    status: int
    source: str | None
    event: str | None
    size: int
    body_sha256: str | None
    headers: Headers
    verified: bool
    secret_index: int | None
    delivery_id: str | None
    run_id: str | None
    run_state: str | None
    count: int


async def page(database: Database, user_id: str, webhook: str, limit: int, before: str | None = None) -> list[Entry]:
    """Up to `limit` entries of the user's webhook, newest first, from behind the entry whose id is `before`."""
    async with database.read() as connection:
        found: list[Any] = []
        for table, query in ((deliveries, _accepted()), (attempts, _others())):
            wanted = [table.c.user_id == user_id, table.c.webhook == webhook]
            if before is not None:
                wanted.append(table.c.id < before)
            rows = await connection.execute(query.where(*wanted).order_by(table.c.id.desc()).limit(limit))
            found += rows.all()
        found = sorted(found, key=lambda row: row.id, reverse=True)[:limit]
    decoder = msgspec.json.Decoder(Headers)
    return [
        Entry(
            **{
                **{name: value for name, value in row._asdict().items() if name != "user_id"},
                "headers": decoder.decode(row.headers),
                "verified": bool(row.verified),
            }
        )
        for row in found
    ]


def _accepted() -> Any:
    return select(
        *(deliveries.c[name] for name in _SHARED),
        deliveries.c.secret_index,
        deliveries.c.id.label("delivery_id"),
        literal("accepted").label("verdict"),
        null().label("reason"),
        literal(202).label("status"),
        runs.c.id.label("run_id"),
        runs.c.state.label("run_state"),
        literal(1).label("count"),
    ).select_from(deliveries.outerjoin(runs, runs.c.id == deliveries.c.run_id))


def _others() -> Any:
    return select(
        *(attempts.c[name] for name in (*_SHARED, "delivery_id", "verdict", "reason", "status", "count")),
        attempts.c.secret_index,
        *(null().label(name) for name in ("run_id", "run_state")),
    )
