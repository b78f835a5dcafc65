"""Operations on deliveries: list, show, and run again."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, get_args

from pydantic import Field

from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import Text, When, attributes, moment, time_json
from runtime.api.admin.state import AdminContext
from runtime.errors import UsageError
from runtime.identity import users
from runtime.suggestions import unknown_name
from runtime.threads.turns.turn import NEVER, QUEUED
from runtime.webhooks.deliveries import queries
from runtime.webhooks.deliveries.queries import ID_LENGTH, DeliveryQuery, DeliveryRun, DeliveryState, ListedDelivery
from runtime.webhooks.deliveries.redelivery import ENDED, redeliver_all

REPLAYED = 500
"""Maximum number of deliveries in one call of `redeliver`."""


@operation()
async def delivery_list(
    context: AdminContext,
    name: Annotated[Text | None, Field(description="Only deliveries of this webhook.")] = None,
    status: Annotated[list[DeliveryState], Field(description="Only deliveries in these states.")] = [],  # noqa: B006
    since: When = None,
    until: When = None,
    limit: Annotated[int, Field(ge=1, le=10_000, description="Maximum number of deliveries.")] = 20,
    after: Annotated[
        str | None,
        Field(description="Oldest first, from this id on; empty: from the first one. Default: newest first."),
    ] = None,
) -> dict[str, Any]:
    """Return accepted deliveries. `more`: True if there are others."""
    wanted = DeliveryQuery(
        name=name,
        states=tuple(status),
        since=moment(since, "since", context.clock),
        until=moment(until, "until", context.clock),
    )
    rows = await queries.list_deliveries(context.database, wanted, limit + 1, after)
    unknown = not rows and name is not None and not after and name not in context.mounts
    if unknown and not await queries.list_deliveries(context.database, DeliveryQuery(name=name), 1):
        raise unknown_name("webhook", str(name), context.mounts)
    known = await users.names(context.database)
    return {"deliveries": [_row(context, row, known) for row in rows[:limit]], "more": len(rows) > limit}


@operation()
async def delivery_show(context: AdminContext, delivery_id: Text) -> dict[str, Any]:
    """Return the delivery whose id begins with `delivery_id`: its headers and body (base64, and as `text`
    if it is UTF-8) as received, and its runs."""
    found = await queries.show(context.database, await queries.resolve(context.database, delivery_id))
    return {
        **_row(context, found.row, await users.names(context.database)),
        "headers": [list(pair) for pair in found.headers],
        "body": None if found.body is None else base64.b64encode(found.body).decode(),
        "text": _text(found.body),
        "body_missing": found.why,
        "runs": [_run_json(context, run) for run in found.runs],
    }


def _text(body: bytes | None) -> str | None:
    try:
        return None if body is None else body.decode()
    except UnicodeDecodeError:
        return None


@operation(changes=True)
async def delivery_redeliver(
    context: AdminContext,
    ids: Annotated[list[Text], Field(min_length=1, max_length=REPLAYED)],
    states: list[DeliveryState] = [],  # noqa: B006 - never changed
    fresh: bool = False,
) -> dict[str, Any]:
    """Queue the deliveries `ids` again, each an id or its prefix, and return for each if it is queued, or the
    reason.

    `states`: deliveries in another state are left as they are. `fresh`: begin a new run even where one could
    continue.
    """
    if any(state not in ENDED for state in states):
        raise UsageError(
            "only deliveries that have ended can be redelivered",
            hint=f"they are {', '.join(state for state in get_args(DeliveryState) if state in ENDED)}",
        )
    given = [await queries.resolve(context.database, each) if len(each) != ID_LENGTH else each for each in ids]
    sent = await redeliver_all(
        context.database,
        context.clock,
        given,
        fresh=fresh,
        states=states or ENDED,
        agents=context.agents,
        wakes=lambda name: context.mounts[name].agent if name in context.mounts else None,
    )
    if any(each.reason is None for each in sent):
        context.daemon.on_queued()
    return {
        "deliveries": [{"id": each.delivery_id, "queued": each.reason is None, "reason": each.reason} for each in sent]
    }


def _row(context: AdminContext, row: ListedDelivery, known: Mapping[str, str]) -> dict[str, Any]:
    state, error = context.shown_state(row.state, row.last_error, row.run_state)
    return {
        **attributes(row, "id", "webhook"),
        "user": users.display_name(known, row.user_id),
        "agent": row.agent or None,
        **attributes(row, "provider", "event", "provider_delivery_id"),
        "received": time_json(row.received_at),
        **attributes(row, "source", "size", "content_type", "verified", "secret_index"),
        "state": state,
        "attempts": row.attempt,
        "tries": row.tries,
        "next_attempt": time_json(row.next_attempt_at) if state == QUEUED and row.next_attempt_at < NEVER else None,
        "finished": time_json(row.finished_at),
        "error": error,
        "run": row.run_id,
    }


def _run_json(context: AdminContext, run: DeliveryRun) -> dict[str, Any]:
    state, error = context.shown_state(run.state, run.error)
    return {
        **attributes(run, "id", "agent"),
        "state": state,
        "attempts": run.attempt,
        "started": time_json(run.started_at),
        "finished": time_json(run.finished_at),
        "error": error,
    }
