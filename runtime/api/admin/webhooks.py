"""Operations on webhooks: list them, read the audit log, and sign deliveries as their senders do."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.api.admin.parameters import integer, optional_text, text
from runtime.api.admin.state import AdminContext
from runtime.clock import rfc3339, uuid7
from runtime.errors import SymbiontError, UsageError
from runtime.identity import users
from runtime.suggestions import unknown_name
from runtime.threads.run import SWITCHED_OFF
from runtime.webhooks.audit import log as audit_log
from runtime.webhooks.audit.log import ANY_STATUS, Asked, Noted
from runtime.webhooks.providers.samples import sample as samples
from runtime.webhooks.routing.route import MountedWebhook, Route


async def list_webhooks(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return every webhook, declared or created through the API, mounted or with the reason why not; without a daemon
    none is mounted."""
    known = await users.names(context.database)
    return {"webhooks": [_row(entry, context, known) for _, entry in sorted(context.mounts.items())]}


def _row(entry: MountedWebhook, context: AdminContext, known: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "user": users.display_name(known, entry.user_id),
        "path": entry.path,
        "provider": entry.provider,
        "agent": entry.agent,
        "declared": entry.origin,
        "mounted": entry.route is not None and bool(context.addresses),
        "problem": entry.problem,
        "secret": entry.secret_from,
        "url": context.public_url(entry.path) if context.addresses else None,
    }


def _url(entry: MountedWebhook, context: AdminContext) -> str:
    """Return the URL for this machine; senders may need another one."""
    return f"http://{context.addresses['public']}{entry.path}"


async def log(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the newest `tail` attempts, oldest first; with `since` (Unix milliseconds) the oldest `tail` from then on.

    The attempts can be limited to those of the webhook `name`, with the `reason`, with the `status` (a number, or
    `4xx`). `more`: True if there are others beyond `tail`.
    """
    name = optional_text(parameters, "name")
    tail = integer(parameters, "tail", 20, 1, 10_000)
    since = integer(parameters, "since", 0, 0, 2**53) if parameters.get("since") is not None else None
    asked = Asked(
        name=name,
        reason=optional_text(parameters, "reason"),
        status=_status(optional_text(parameters, "status")),
        since=since,
    )
    if context.audit is not None:
        # Attempts that arrived a moment ago are included.
        await context.audit.flush()
    rows = await audit_log.read(context.database, asked, tail + 1)
    if name is not None and not rows and name not in context.mounts:
        known = await audit_log.read(context.database, Asked(name=name), 1)
        if not known:
            raise unknown_name("webhook", name, context.mounts)
    shown = rows[:tail] if since is not None else rows[-tail:]
    return {"attempts": [_attempt(row, context) for row in shown], "more": len(rows) > tail}


def _attempt(row: Noted, context: AdminContext) -> dict[str, Any]:
    entry = context.mounts.get(row.webhook or "")
    state, error = context.shown(row.state, row.error, row.run_state)
    several = row.secret_index is not None and (row.secret_index > 0 or bool(entry and len(entry.secret_origins) > 1))
    return {
        "id": row.id,
        "time": rfc3339(row.received_at / 1000),
        "at": row.received_at,
        "webhook": row.webhook,
        "verdict": row.verdict,
        "reason": row.reason,
        "status": row.status,
        "event": row.event,
        "source": row.source,
        "size": row.size,
        "body_sha256": row.body_sha256,
        "headers": row.headers,
        "verified": row.verified,
        "secret_index": row.secret_index,
        # The secret's number is shown if the webhook has more than one.
        "secret": row.secret_index + 1 if row.secret_index is not None and several else None,
        "delivery_id": row.delivery_id,
        "provider_delivery_id": row.provider_delivery_id,
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


async def sign_delivery(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headers and body with which `name`'s sender would send `body` (both base64), and the URL that it would
    post to."""
    entry, route = _mounted(context, parameters)
    try:
        body = base64.b64decode(text(parameters, "body"), validate=True)
    except ValueError:  # binascii.Error is a ValueError; non-ASCII letters raise another one
        raise UsageError("the parameter body is not base64") from None
    event = optional_text(parameters, "event")
    delivery_id = optional_text(parameters, "delivery_id") or uuid7(context.clock)
    return _signed(context, entry, route, body, delivery_id, event, ())


async def sample(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sample of `event` as the sender of `name` would send it now: the fields of `sign_delivery`, the
    sample's name as `event`, and `made_up`: true if it is not from the provider's documentation."""
    entry, route = _mounted(context, parameters)
    delivery_id = optional_text(parameters, "delivery_id") or uuid7(context.clock)
    made = samples.make(
        route.verifier.provider,
        optional_text(parameters, "event"),
        now=context.clock.now(),
        delivery_id=delivery_id,
    )
    signed = _signed(context, entry, route, made.body, delivery_id, made.event, made.headers)
    return {**signed, "event": made.name, "made_up": made.made_up}


async def list_samples(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of the samples by provider: of all, or of the provider of the webhook `name`."""
    name = optional_text(parameters, "name")
    if name is not None and name not in context.mounts:
        raise unknown_name("webhook", name, context.mounts)
    providers = samples.names() if name is None else (context.mounts[name].provider,)
    found = [{"provider": each, "events": list(samples.events(each))} for each in providers]
    return {"samples": [each for each in found if each["events"]]}


def _mounted(context: AdminContext, parameters: Mapping[str, Any]) -> tuple[MountedWebhook, Route]:
    name = text(parameters, "name")
    entry = context.mounts.get(name)
    if entry is None:
        raise unknown_name("webhook", name, context.mounts)
    if not context.addresses:
        raise SymbiontError("no daemon is running on this root", hint="start it with `symbi up`")
    if entry.route is None:
        raise SymbiontError(f"the webhook {name} is not mounted: {entry.problem}")
    return entry, entry.route


def _signed(
    context: AdminContext,
    entry: MountedWebhook,
    route: Route,
    body: bytes,
    delivery_id: str,
    event: str | None,
    added: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    try:
        headers, sent = route.signed(body, context.clock.now(), delivery_id, event)
    except ValueError as error:
        raise SymbiontError(f"the webhook {entry.name} ({entry.provider}) cannot be tested: {error}") from None
    given = {name.lower() for name, _ in added}
    whole = [*added, *(pair for pair in headers if pair[0].lower() not in given)]
    return {
        "url": _url(entry, context),
        "provider": entry.provider,
        "headers": [list(pair) for pair in whole],
        "body": base64.b64encode(sent).decode(),
    }
