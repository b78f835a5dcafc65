"""What came in, accepted or not, by webhook, reason and status: the newest, or from some moment on."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from sqlalchemy import case, literal, null, select
from sqlalchemy.sql import Select

from runtime.database.connection import Database
from runtime.database.schema import attempts, deliveries, runs
from runtime.webhooks.deliveries.delivery import Headers
from runtime.webhooks.deliveries.queries import first_id
from runtime.webhooks.providers import PROVIDERS

ANY_STATUS: Final = (100, 599)
VERIFIED: Final = "verified"
UNVERIFIED: Final = "unverified"

_SHARED = (
    *("id", "user_id", "webhook", "received_at", "source", "event", "provider_delivery_id", "size"),
    *("body_sha256", "headers", "verified", "secret_index"),
)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempts."""

    name: str | None = None
    """The webhook."""
    reason: str | None = None
    """A refusal's code, or another verdict's; `verified` or `unverified` of accepted ones."""
    status: tuple[int, int] = ANY_STATUS
    """HTTP status: the least and the greatest."""
    since: int | None = None
    """Unix milliseconds: those that came in then or later."""


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, or `count` alike refusals."""

    id: str
    webhook: str | None
    received_at: int
    """Unix milliseconds; of the newest, where several are one."""
    verdict: str
    """`accepted`, `refused`, `filtered`, `repeated`, `handshake`."""
    reason: str
    status: int
    source: str | None
    event: str | None
    provider_delivery_id: str | None
    size: int
    body_sha256: str | None
    headers: Headers
    verified: bool
    secret_index: int | None
    delivery_id: str | None
    state: str | None
    """The delivery's."""
    error: str | None
    run_id: str | None
    run_state: str | None
    count: int


async def read(database: Database, asked: Asked, limit: int) -> list[Noted]:
    """Up to `limit` attempts, oldest first: the newest there are, or with `since` the oldest from then on."""
    queries = [_limited(_others(asked), attempts.c.received_at, attempts.c.id, asked, limit)]
    if asked.reason in {None, VERIFIED, UNVERIFIED}:
        queries.append(_limited(_accepted(asked), deliveries.c.id, deliveries.c.id, asked, limit))
    async with database.read() as connection:
        found: list[Any] = []
        for query in queries:
            found += (await connection.execute(query)).all()
        found.sort(key=lambda row: (row.received_at, row.id))
        found = found[-limit:] if asked.since is None else found[:limit]
    return [_noted(row) for row in found]


def _noted(row: Any) -> Noted:
    fields = {name: value for name, value in row._asdict().items() if name != "user_id"}
    fields["headers"] = msgspec.json.decode(row.headers, type=Headers)
    fields["verified"] = bool(row.verified)
    return Noted(**fields)


def _limited(query: Select[Any], first: Any, then: Any, asked: Asked, limit: int) -> Select[Any]:
    newest_first = asked.since is None
    return query.order_by(*(each.desc() if newest_first else each for each in (first, then))).limit(limit)


def _accepted(asked: Asked) -> Select[Any]:
    query = select(
        *(deliveries.c[name] for name in _SHARED),
        deliveries.c.state,
        deliveries.c.id.label("delivery_id"),
        literal("accepted").label("verdict"),
        _ANSWERED.label("status"),
        deliveries.c.last_error.label("error"),
        runs.c.id.label("run_id"),
        runs.c.state.label("run_state"),
        literal(1).label("count"),
        case((deliveries.c.verified, VERIFIED), else_=UNVERIFIED).label("reason"),
    ).select_from(deliveries.outerjoin(runs, runs.c.id == deliveries.c.run_id))
    if asked.name is not None:
        query = query.where(deliveries.c.webhook == asked.name)
    if asked.reason is not None:
        query = query.where(deliveries.c.verified == (asked.reason == VERIFIED))
    if asked.since is not None:
        # An id begins with the time it was made at; only ids are indexed.
        query = query.where(deliveries.c.id >= first_id(asked.since))
    return query if asked.status == ANY_STATUS else query.where(_ANSWERED.between(*asked.status))


# A sender is answered 202 unless its row prescribes something else.
_ANSWERED = case(
    {name: row.answer.status for name, row in PROVIDERS.items() if row.answer is not None},
    value=deliveries.c.provider,
    else_=202,
)


def _others(asked: Asked) -> Select[Any]:
    query = select(
        *(attempts.c[name] for name in _SHARED),
        *(attempts.c[name] for name in ("delivery_id", "verdict", "reason", "status", "count")),
        *(null().label(name) for name in ("state", "error", "run_id", "run_state")),
    )
    if asked.name is not None:
        query = query.where(attempts.c.webhook == asked.name)
    if asked.reason is not None:
        query = query.where(attempts.c.reason == asked.reason)
    if asked.since is not None:
        query = query.where(attempts.c.received_at >= asked.since)
    return query.where(attempts.c.status.between(*asked.status))
