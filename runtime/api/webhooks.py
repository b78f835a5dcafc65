"""The resource `webhooks`: what is declared, what came in, and a delivery signed as its sender would."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from runtime.api.house import House
from runtime.api.parameters import integer, optional_text, text, unknown
from runtime.clock import rfc3339, uuid7
from runtime.errors import SymbiontError, UsageError
from runtime.webhooks import audit
from runtime.webhooks.route import Mount


async def list_webhooks(house: House, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Every webhook, declared or made at run time, mounted or not and why."""
    return {"webhooks": [_row(entry, house) for _, entry in sorted(house.mounts.items())]}


def _row(entry: Mount, house: House) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "user": entry.user_id,
        "path": entry.path,
        "provider": entry.provider,
        "agent": entry.agent,
        "declared": entry.origin,
        "mounted": entry.route is not None,
        "problem": entry.problem,
        "secret": entry.secret_from,
        "url": _url(entry, house) if house.addresses else None,
    }


def _url(entry: Mount, house: House) -> str:
    return f"http://{house.addresses['public']}{entry.path}"


async def log(house: House, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The newest `tail` attempts (of the webhook `name`), oldest first."""
    name = optional_text(parameters, "name")
    tail = integer(parameters, "tail", 20, 1, 10_000)
    if house.audit is not None:
        # What came in a moment ago is there to be seen.
        await house.audit.flush()
    rows = await audit.recent(house.database, name=name, limit=tail)
    if name is not None and not rows and name not in house.mounts:
        raise unknown("webhook", name, house.mounts)
    return {
        "attempts": [
            {
                "time": rfc3339(row.received_at / 1000),
                "webhook": row.webhook,
                "verdict": row.verdict,
                "reason": row.reason,
                "status": row.status,
                "event": row.event,
                "source": row.source,
                "size": row.size,
                "body_sha256": row.body_sha256,
                "headers": row.headers,
                "delivery_id": row.delivery_id,
                "provider_delivery_id": row.provider_delivery_id,
                "run": row.run_id,
                "run_state": row.run_state,
                "count": row.count,
            }
            for row in reversed(rows)
        ]
    }


async def sign_delivery(house: House, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The headers and body with which `name`'s sender would send `body` (both base64), and the URL that it would post
    to."""
    name = text(parameters, "name")
    entry = house.mounts.get(name)
    if entry is None:
        raise unknown("webhook", name, house.mounts)
    if entry.route is None:
        raise SymbiontError(f"the webhook {name} is not mounted: {entry.problem}")
    try:
        body = base64.b64decode(text(parameters, "body"), validate=True)
    except binascii.Error:
        raise UsageError("the parameter body is not base64") from None
    event = optional_text(parameters, "event")
    delivery_id = optional_text(parameters, "delivery_id") or uuid7(house.clock)
    try:
        headers, sent = entry.route.signed(body, house.clock.now(), delivery_id, event)
    except ValueError as error:
        raise SymbiontError(f"the webhook {name} ({entry.provider}) cannot be tried out: {error}") from None
    return {
        "url": _url(entry, house),
        "provider": entry.provider,
        "headers": [list(pair) for pair in headers],
        "body": base64.b64encode(sent).decode(),
    }
