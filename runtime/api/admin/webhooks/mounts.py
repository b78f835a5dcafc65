"""Operations on webhooks: list them, read the log of requests, and sign deliveries as their senders do."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import Field

from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import LARGEST_DELIVERY, Body, Text, attributes
from runtime.api.admin.state import AdminContext
from runtime.clock import rfc3339, uuid7
from runtime.errors import SymbiontError, UsageError
from runtime.identity import users
from runtime.suggestions import unknown_name
from runtime.threads.run import SWITCHED_OFF
from runtime.webhooks.audit import log as audit_log
from runtime.webhooks.audit.audit import PATH
from runtime.webhooks.audit.log import ANY_STATUS, LogEntry, LogQuery
from runtime.webhooks.providers.samples import sample as samples
from runtime.webhooks.routing.route import MountedWebhook, Route


@operation()
async def webhook_mounts(context: AdminContext) -> dict[str, Any]:
    """Return every webhook, declared or created through the API, mounted or with the reason why not; without a daemon
    none is mounted."""
    known = await users.names(context.database)
    return {"webhooks": [_row(entry, context, known) for _, entry in sorted(context.mounts.items())]}


def _row(entry: MountedWebhook, context: AdminContext, known: Mapping[str, str]) -> dict[str, Any]:
    return {
        **attributes(entry, "name", "title"),
        "user": users.display_name(known, entry.user_id),
        **attributes(entry, "path", "provider", "agent"),
        "declared": entry.origin,
        "mounted": entry.route is not None and bool(context.daemon.addresses),
        "problem": entry.problem,
        "secret": "; ".join((entry.secret_from, *entry.notes)),
        "url": context.daemon.url_of(entry.path) if context.daemon.addresses else None,
    }


@operation()
async def webhook_requests(
    context: AdminContext,
    name: Text | None = None,
    reason: Text | None = None,
    status: Text | None = None,
    since: Annotated[int | None, Field(ge=0, le=2**53)] = None,
    limit: Annotated[int, Field(ge=1, le=10_000)] = 20,
) -> dict[str, Any]:
    """Return the newest `limit` requests, oldest first; with `since` (Unix milliseconds) the oldest `limit` from then
    on.

    They can be limited to those to the webhook `name`, with the `reason`, with the `status` (a number, or `4xx`).
    `more`: True if there are others beyond `limit`.
    """
    asked = LogQuery(name=name, reason=reason, status=_status(status), since=since)
    if context.daemon.audit is not None:
        # Attempts that arrived a moment ago are included.
        await context.daemon.audit.flush()
    rows = await audit_log.read(context.database, asked, limit + 1)
    if name is not None and not rows and name not in context.mounts:
        known = await audit_log.read(context.database, LogQuery(name=name), 1)
        if not known:
            raise unknown_name("webhook", name, context.mounts)
    shown = rows[:limit] if since is not None else rows[-limit:]
    paths = {_plain_path(entry.path): entry.path for entry in context.mounts.values()}
    return {"attempts": [_attempt(row, context, paths) for row in shown], "more": len(rows) > limit}


def _plain_path(path: str) -> str:
    """Return a path without the differences that senders' forms and proxies make: slashes, case and escapes."""
    return "/".join(part for part in unquote(path).split("/") if part).casefold()


def _attempt(row: LogEntry, context: AdminContext, paths: Mapping[str, str]) -> dict[str, Any]:
    """`paths`: of the webhooks, by their plain form."""
    path = dict(row.headers).get(PATH)
    near = None if path is None else paths.get(_plain_path(path))
    entry = context.mounts.get(row.webhook or "")
    state, error = context.shown_state(row.state, row.error, row.run_state)
    several = row.secret_index is not None and (row.secret_index > 0 or bool(entry and len(entry.secret_origins) > 1))
    return {
        "id": row.id,
        "time": rfc3339(row.received_at / 1000),
        "at": row.received_at,
        **attributes(row, "webhook", "verdict", "reason", "status"),
        # Of a request that no webhook takes, and the path that was probably meant.
        "path": path,
        "near_path": None if near == path else near,
        **attributes(row, "event", "source", "size", "body_sha256"),
        "headers": [pair for pair in row.headers if pair[0] != PATH],
        **attributes(row, "verified", "secret_index"),
        # The secret's number is shown if the webhook has more than one.
        "secret": row.secret_index + 1 if row.secret_index is not None and several else None,
        **attributes(row, "delivery_id", "provider_delivery_id"),
        "state": state,
        "error": error,
        "run": row.run_id,
        "run_state": state if state == SWITCHED_OFF else row.run_state,
        "count": row.count,
    }


def _status(text: str | None) -> tuple[int, int]:
    """Parse `404`, or `4xx` for all statuses that begin with that digit."""
    match = re.fullmatch(r"([1-5])(xx|[0-9]{2})", text or "1xx", re.ASCII)
    if match is None:
        raise UsageError(
            f"{text!r} is not an HTTP status", hint="write a status such as 401, or 4xx for all that begin with 4"
        )
    if text is None:
        return ANY_STATUS
    first = int(match[1]) * 100
    return (first, first + 99) if match[2] == "xx" else (first + int(match[2]),) * 2


@operation(largest=LARGEST_DELIVERY)
async def webhook_sign(
    context: AdminContext,
    name: Text,
    body: Body | None = None,
    event: Text | None = None,
    delivery_id: Text | None = None,
) -> dict[str, Any]:
    """Return the headers and body (base64) with which the sender of the webhook `name` would send `body`, and the URL
    that it would post to.

    Without a body: those of a sample of `event`, with the sample's name as `event`, and `made_up`: true if it is not
    from the provider's documentation.
    """
    entry = context.mounts.get(name)
    if entry is None:
        raise unknown_name("webhook", name, context.mounts)
    if not context.daemon.addresses:
        raise SymbiontError("no daemon is running on this root", hint="start it with `symbi up`")
    if entry.route is None:
        raise SymbiontError(f"the webhook {name} is not mounted: {entry.problem}")
    delivery_id = delivery_id or uuid7(context.clock)
    if body is not None:
        return _signed_delivery(context, entry, entry.route, body, delivery_id, event, ())
    provider, now = entry.route.verifier.provider, context.clock.now()
    made = samples.make(provider, event, now=now, delivery_id=delivery_id)
    signed = _signed_delivery(context, entry, entry.route, made.body, delivery_id, made.event, made.headers)
    return {**signed, "event": made.name, "made_up": made.is_generic}


def _signed_delivery(
    context: AdminContext,
    entry: MountedWebhook,
    route: Route,
    body: bytes,
    delivery_id: str,
    event: str | None,
    added: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    try:
        headers, sent = route.sign(body, context.clock.now(), delivery_id, event)
    except ValueError as error:
        raise SymbiontError(f"the webhook {entry.name} ({entry.provider}) cannot be tested: {error}") from None
    given = {name.lower() for name, _ in added}
    whole = [*added, *(pair for pair in headers if pair[0].lower() not in given)]
    return {
        # For this machine; senders may need another one.
        "url": f"http://{context.daemon.addresses['public']}{entry.path}",
        "query": route.query,
        "provider": entry.provider,
        "headers": [list(pair) for pair in whole],
        "body": base64.b64encode(sent).decode(),
    }
