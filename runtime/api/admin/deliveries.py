"""Operations on deliveries: list, select, show, and run again."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from runtime.api.admin.parameters import flag, integer, moment, optional_text, text, time_json, unicode
from runtime.api.admin.state import AdminContext
from runtime.errors import UsageError
from runtime.identity import users
from runtime.suggestions import unknown_name
from runtime.threads.turns.turn import NEVER, QUEUED
from runtime.webhooks.deliveries import queries
from runtime.webhooks.deliveries.queries import ID_LENGTH, STATES, DeliveryQuery, ListedDelivery, Ran
from runtime.webhooks.deliveries.redelivery import ENDED, redeliver_all

SELECTED = 10_000
"""Maximum number of ids in one answer of `select`."""

REPLAYED = 500
"""Maximum number of deliveries in one call of `redeliver`."""


async def list_deliveries(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the newest `limit` deliveries (of the webhook `name`, of one `status`, received `since` and `until`),
    newest first. `more`: True if there are others."""
    wanted = _wanted(context, parameters)
    limit = integer(parameters, "limit", 20, 1, 10_000)
    rows = await queries.newest(context.database, wanted, limit + 1)
    if not rows:
        await _refuse_unknown_name(context, wanted)
    known = await users.names(context.database)
    return {"deliveries": [_row(context, row, known) for row in rows[:limit]], "more": len(rows) > limit}


async def select(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ids of the deliveries to redeliver in this range, oldest first, starting after the id `after`; by
    default the deliveries that did not reach their agents."""
    wanted = _wanted(context, parameters, default=("dead", "agent_gone"))
    if any(state not in ENDED for state in wanted.states):
        raise UsageError(
            "only deliveries that have ended can be redelivered",
            hint="--status takes dead, agent_gone, cancelled, kept or done; the others have not ended yet",
        )
    after = optional_text(parameters, "after") or ""
    ids = await queries.oldest_ids(context.database, wanted, SELECTED + 1, after)
    if not ids and not after:
        await _refuse_unknown_name(context, wanted)
    return {"ids": ids[:SELECTED], "states": list(wanted.states), "more": len(ids) > SELECTED}


async def show(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the delivery whose id begins with `id`: its headers and body (base64) as received, and its runs."""
    found = await queries.show(context.database, await queries.resolve(context.database, text(parameters, "id")))
    return {
        **_row(context, found.row, await users.names(context.database)),
        "headers": [list(pair) for pair in found.headers],
        "body": None if found.body is None else base64.b64encode(found.body).decode(),
        "body_missing": found.why,
        "runs": [_ran(context, ran) for ran in found.runs],
    }


async def redeliver(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Queue the deliveries `ids` again, each an id or its prefix, and return for each if it is queued, or the
    reason.

    `states`: deliveries in another state are left as they are. `fresh`: begin a new run even where one could
    continue.
    """
    states = _texts(parameters, "states") or ENDED
    fresh = flag(parameters, "fresh")
    given = _texts(parameters, "ids")
    if not 0 < len(given) <= REPLAYED:
        raise UsageError(f"the parameter ids is not a list of 1 to {REPLAYED} ids")
    ids = [await queries.resolve(context.database, each) if len(each) != ID_LENGTH else each for each in given]
    sent = await redeliver_all(
        context.database,
        context.clock,
        ids,
        fresh=fresh,
        states=states,
        agents=context.agents,
        wakes=lambda name: context.mounts[name].agent if name in context.mounts else None,
    )
    if any(each.reason is None for each in sent):
        context.on_queued()
    return {
        "deliveries": [{"id": each.delivery_id, "queued": each.reason is None, "reason": each.reason} for each in sent]
    }


def _wanted(context: AdminContext, parameters: Mapping[str, Any], default: tuple[str, ...] = ()) -> DeliveryQuery:
    status = optional_text(parameters, "status")
    if status is not None and status not in STATES:
        raise unknown_name("status", status, STATES)
    return DeliveryQuery(
        name=optional_text(parameters, "name"),
        states=default if status is None else (status,),
        since=moment(parameters, "since", context.clock),
        until=moment(parameters, "until", context.clock),
    )


async def _refuse_unknown_name(context: AdminContext, wanted: DeliveryQuery) -> None:
    """Raise UsageError if nothing was found because no webhook has that name, now or among stored deliveries."""
    if wanted.name is None or wanted.name in context.mounts:
        return
    if not await queries.newest(context.database, DeliveryQuery(name=wanted.name), 1):
        raise unknown_name("webhook", wanted.name, context.mounts)


def _row(context: AdminContext, row: ListedDelivery, known: Mapping[str, str]) -> dict[str, Any]:
    state, error = context.shown(row.state, row.last_error, row.run_state)
    return {
        "id": row.id,
        "webhook": row.webhook,
        "user": users.display_name(known, row.user_id),
        "agent": row.agent or None,
        "provider": row.provider,
        "event": row.event,
        "provider_delivery_id": row.provider_delivery_id,
        "received": time_json(row.received_at),
        "source": row.source,
        "size": row.size,
        "content_type": row.content_type,
        "verified": row.verified,
        "secret_index": row.secret_index,
        "state": state,
        "attempts": row.attempt,
        "tries": row.tries,
        "next_attempt": time_json(row.next_attempt_at) if state == QUEUED and row.next_attempt_at < NEVER else None,
        "finished": time_json(row.finished_at),
        "error": error,
        "run": row.run_id,
    }


def _ran(context: AdminContext, ran: Ran) -> dict[str, Any]:
    state, error = context.shown(ran.state, ran.error)
    return {
        "id": ran.id,
        "agent": ran.agent,
        "state": state,
        "attempts": ran.attempt,
        "started": time_json(ran.started_at),
        "finished": time_json(ran.finished_at),
        "error": error,
    }


def _texts(parameters: Mapping[str, Any], name: str) -> list[str]:
    value = parameters.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise UsageError(f"the parameter {name} is not a list of strings")
    return [unicode(each, name) for each in value]
