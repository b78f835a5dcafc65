"""Queries of accepted deliveries: lists by webhook, state and time, and one delivery with its stored request."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final, Literal, get_args

import msgspec
from sqlalchemy import ColumnElement, literal_column, or_, select

from runtime.crypto import Unsealable
from runtime.database.connection import Database
from runtime.database.schema import bodies, deliveries, runs
from runtime.database.sealed import Seal
from runtime.errors import NotFound, UsageError
from runtime.webhooks.deliveries.delivery import HeaderPairs
from runtime.webhooks.deliveries.stored_request import unpack

DeliveryState = Literal["queued", "running", "waiting", "done", "kept", "dead", "agent_gone", "cancelled"]

ID_LENGTH: Final = 36
_ID = re.compile(r"[0-9a-f-]{1,36}\Z")


class DeliveryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Criteria of deliveries. Times are Unix milliseconds: from `since`, before `until`."""

    name: str | None = None
    """The webhook."""
    states: Collection[str] = ()
    """Empty: all states."""
    since: int | None = None
    until: int | None = None

    def where(self) -> list[ColumnElement[bool]]:
        """Return the conditions on the table `deliveries`."""
        conditions: list[ColumnElement[bool]] = []
        if self.name is not None:
            conditions.append(deliveries.c.webhook == self.name)
        if self.states:
            # As literals: a partial index is not used for a parameter.
            conditions.append(or_(*(deliveries.c.state == _state_literal(state) for state in self.states)))
        if self.since is not None:
            # An id begins with its creation time; only ids are indexed.
            conditions += [deliveries.c.id >= first_id(self.since), deliveries.c.received_at >= self.since]
        if self.until is not None:
            conditions += [deliveries.c.id < first_id(self.until), deliveries.c.received_at < self.until]
        return conditions


class ListedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery in its current state. Times are Unix milliseconds."""

    id: str
    user_id: str
    webhook: str
    agent: str
    provider: str
    provider_delivery_id: str | None
    event: str | None
    received_at: int
    source: str | None
    size: int
    content_type: str | None
    verified: bool
    secret_index: int | None
    state: str
    attempt: int
    tries: int
    next_attempt_at: int
    finished_at: int | None
    last_error: str | None
    run_id: str | None
    run_state: str | None = None
    """Of its last run, see `runtime.threads.run`."""


_STORED_FIELDS = tuple(name for name in ListedDelivery.__struct_fields__ if name != "run_state")
_LIST_COLUMNS: Final = (*(deliveries.c[name] for name in _STORED_FIELDS), runs.c.state.label("run_state"))
_WITH_RUN: Final = deliveries.outerjoin(runs, runs.c.id == deliveries.c.run_id)


class DeliveryRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a delivery."""

    id: str
    agent: str
    state: str
    attempt: int
    started_at: int
    finished_at: int | None
    error: str | None


class DeliveryDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery with its stored request: `body` is None if it is not available, for the reason `why`."""

    row: ListedDelivery
    headers: HeaderPairs
    body: bytes | None
    why: str | None
    runs: tuple[DeliveryRun, ...]


async def list_deliveries(
    database: Database, wanted: DeliveryQuery, limit: int, after: str | None = None
) -> list[ListedDelivery]:
    """Return the newest `limit` deliveries, newest first; with `after` the oldest ones after that id, oldest first."""
    query = select(*_LIST_COLUMNS).select_from(_WITH_RUN).where(*wanted.where())
    by_id = deliveries.c.id
    query = query.order_by(by_id.desc()) if after is None else query.where(by_id > after).order_by(by_id)
    async with database.read() as connection:
        rows = (await connection.execute(query.limit(limit))).all()
    return [_listed_delivery(row) for row in rows]


async def resolve(database: Database, text: str) -> str:
    """Return the id that begins with `text`. Raises NotFound if there is none, UsageError if there are several."""
    given = text.lower()
    if not _ID.match(given):
        raise UsageError(f"{text!r} is not the id of a delivery", hint="`symbi webhook deliveries` lists them")
    if len(given) == ID_LENGTH:
        condition: ColumnElement[bool] = deliveries.c.id == given
    elif database.kind == "sqlite":
        condition = deliveries.c.id.between(given, given + "~")
    else:
        # The collation of a PostgreSQL database is unknown, so `between` cannot be used.
        condition = deliveries.c.id.like(f"{given}%")
    async with database.read() as connection:
        found: list[str] = list((await connection.scalars(select(deliveries.c.id).where(condition).limit(4))).all())
    if not found:
        raise NotFound(f"there is no delivery {text}", hint="`symbi webhook deliveries` lists them")
    if len(found) > 1:
        some = ", ".join(sorted(found)[:3]) + (", …" if len(found) > 3 else "")
        raise UsageError(f"several deliveries begin with {text}: {some}", hint="write more characters of the id")
    return found[0]


async def show(database: Database, delivery_id: str) -> DeliveryDetails:
    """Return the delivery with its request and runs. Raises NotFound."""
    query = select(*_LIST_COLUMNS, deliveries.c.headers).select_from(_WITH_RUN)
    piece = select(bodies.c.body, bodies.c.headers_size).where(bodies.c.delivery_id == delivery_id)
    ran = select(runs).where(runs.c.delivery_id == delivery_id).order_by(runs.c.id)
    async with database.read() as connection:
        row = (await connection.execute(query.where(deliveries.c.id == delivery_id))).first()
        kept = (await connection.execute(piece)).first()
        history = (await connection.execute(ran)).all()
    if row is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    headers, body, why = msgspec.json.decode(row.headers, type=HeaderPairs), None, "its body is no longer stored"
    if kept is not None:
        try:
            opened = Seal(database.keys, bodies.c.body).open(kept.body, row=row.id, user_id=row.user_id)
        except Unsealable as error:
            why = error.line()
        else:
            received = unpack(opened, kept.headers_size)
            headers, body, why = received.headers or headers, received.body, ""
    return DeliveryDetails(
        row=_listed_delivery(row), headers=headers, body=body, why=why or None, runs=tuple(map(_delivery_run, history))
    )


def _listed_delivery(row: Any) -> ListedDelivery:
    fields = {name: getattr(row, name) for name in ListedDelivery.__struct_fields__}
    return ListedDelivery(**{**fields, "verified": bool(row.verified)})


def _delivery_run(row: Any) -> DeliveryRun:
    return DeliveryRun(**{name: getattr(row, name) for name in DeliveryRun.__struct_fields__})


def _state_literal(state: str) -> Any:
    states = get_args(DeliveryState)
    if state not in states:
        raise UsageError(f"unknown state {state!r}", hint=f"states: {', '.join(states)}")
    return literal_column(f"'{state}'")


def first_id(at: int) -> str:
    """Return a lower bound of all ids created at `at` (Unix milliseconds) or later."""
    start = f"{min(max(at, 0), 0xFFFFFFFFFFFF):012x}"
    return f"{start[:8]}-{start[8:]}"
