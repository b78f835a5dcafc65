"""The log of requests, accepted or not: filtered by webhook, reason and status, or of one webhook page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, case, literal, null, select
from sqlalchemy.sql import Select

from runtime.database.connection import Database
from runtime.database.schema import attempts, deliveries, runs
from runtime.webhooks.deliveries.delivery import HeaderPairs, RejectedRequest
from runtime.webhooks.deliveries.queries import first_id
from runtime.webhooks.providers import PROVIDERS

ANY_STATUS: Final = (100, 599)
VERIFIED: Final = "verified"
UNVERIFIED: Final = "unverified"

_SHARED = (
    *("id", "user_id", "webhook", "received_at", "source", "event", "provider_delivery_id", "size"),
    *("body_sha256", "headers", "verified", "secret_index"),
)


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Criteria of log entries."""

    name: str | None = None
    """The webhook."""
    reason: str | None = None
    """The code of a refusal or another verdict; `verified` or `unverified` for accepted deliveries."""
    status: tuple[int, int] = ANY_STATUS
    """HTTP status: lowest and highest."""
    since: int | None = None
    """Unix milliseconds: only requests received then or later."""


class LogEntry(RejectedRequest, frozen=True, kw_only=True):
    """One request, or `count` similar refusals. An accepted one has the verdict `accepted`, the reason `verified` or
    `unverified`, and the id of its delivery."""

    id: str
    """Begins with the time of receipt, so ids are in chronological order."""
    received_at: int
    """Unix milliseconds; of the newest if several are counted."""
    state: str | None
    """The state of the delivery."""
    error: str | None
    run_id: str | None
    run_state: str | None
    count: int


async def read(database: Database, query: LogQuery, limit: int) -> list[LogEntry]:
    """Return up to `limit` entries, oldest first: the newest ones, or with `since` the first ones from then on."""
    newest = query.since is None
    queries = [_order(_ATTEMPTS.where(*_attempt_conditions(query)), newest, attempts.c.received_at, attempts.c.id)]
    if query.reason in {None, VERIFIED, UNVERIFIED}:
        queries.append(_order(_DELIVERIES.where(*_delivery_conditions(query)), newest, deliveries.c.id))
    found = await _first_entries(database, queries, limit, newest, key=lambda row: (row.received_at, row.id))
    return found[::-1] if newest else found


async def page(database: Database, user_id: str, webhook: str, limit: int, before: str | None = None) -> list[LogEntry]:
    """Return up to `limit` entries of the user's webhook, newest first, before the one with the id `before`."""
    queries = []
    for query, table in ((_DELIVERIES, deliveries), (_ATTEMPTS, attempts)):
        mine = query.where(table.c.user_id == user_id, table.c.webhook == webhook)
        behind = mine if before is None else mine.where(table.c.id < before)
        queries.append(_order(behind, True, table.c.id))
    return await _first_entries(database, queries, limit, True, key=lambda row: row.id)


async def _first_entries(
    database: Database, queries: Iterable[Select[Any]], limit: int, newest: bool, key: Callable[[Any], Any]
) -> list[LogEntry]:
    found: list[Any] = []
    async with database.read() as connection:
        for query in queries:
            found += (await connection.execute(query.limit(limit))).all()
    return [_log_entry(row) for row in sorted(found, key=key, reverse=newest)[:limit]]


def _log_entry(row: Any) -> LogEntry:
    fields = {"headers": msgspec.json.decode(row.headers, type=HeaderPairs), "verified": bool(row.verified)}
    return LogEntry(**{**row._asdict(), **fields})


def _order(query: Select[Any], newest: bool, *columns: Any) -> Select[Any]:
    return query.order_by(*(each.desc() if newest else each for each in columns))


# The answer is 202 unless the provider's row prescribes another.
_STATUS = case(
    {name: row.answer.status for name, row in PROVIDERS.items() if row.answer is not None},
    value=deliveries.c.provider,
    else_=202,
)
_DELIVERIES = select(
    *(deliveries.c[name] for name in _SHARED),
    deliveries.c.state,
    deliveries.c.id.label("delivery_id"),
    literal("accepted").label("verdict"),
    case((deliveries.c.verified, VERIFIED), else_=UNVERIFIED).label("reason"),
    _STATUS.label("status"),
    deliveries.c.last_error.label("error"),
    runs.c.id.label("run_id"),
    runs.c.state.label("run_state"),
    literal(1).label("count"),
).select_from(deliveries.outerjoin(runs, runs.c.id == deliveries.c.run_id))
_ATTEMPTS = select(
    *(attempts.c[name] for name in (*_SHARED, "delivery_id", "verdict", "reason", "status", "count")),
    *(null().label(name) for name in ("state", "error", "run_id", "run_state")),
)


def _delivery_conditions(query: LogQuery) -> Iterable[ColumnElement[bool]]:
    if query.name is not None:
        yield deliveries.c.webhook == query.name
    if query.reason is not None:
        yield deliveries.c.verified == (query.reason == VERIFIED)
    if query.since is not None:
        # An id begins with its creation time; only ids are indexed.
        yield deliveries.c.id >= first_id(query.since)
    if query.status != ANY_STATUS:
        yield _STATUS.between(*query.status)


def _attempt_conditions(query: LogQuery) -> Iterable[ColumnElement[bool]]:
    if query.name is not None:
        yield attempts.c.webhook == query.name
    if query.reason is not None:
        yield attempts.c.reason == query.reason
    if query.since is not None:
        yield attempts.c.received_at >= query.since
    yield attempts.c.status.between(*query.status)
