"""Operation on filters: evaluate a webhook's filters on a delivery that was not sent."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from runtime.api.admin.parameters import optional_text, text
from runtime.api.admin.state import AdminContext
from runtime.clock import uuid7
from runtime.errors import UsageError
from runtime.suggestions import unknown_name
from runtime.webhooks.filters.explanation import ExplanationLine, explain, sent_headers


async def explain_delivery(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of each filter of the declared webhook `name` on `body` (base64), and the verdict.

    `event`: the event in the sender's header; `headers`: pairs that are added to the sender's own. Nothing is signed,
    sent or stored, and the webhook need not be mounted.
    """
    name = text(parameters, "name")
    entry = context.mounts.get(name)
    if entry is None:
        raise unknown_name("webhook", name, context.mounts)
    if entry.declared is None:
        raise UsageError(f"the webhook {name} was created through the API and has no filters")
    try:
        body = base64.b64decode(parameters.get("body") or "", validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise UsageError("the parameter body is not base64") from None
    sent = sent_headers(entry.declared, optional_text(parameters, "event"), uuid7(context.clock))
    found = explain(entry.declared, [*sent, *_pairs(parameters.get("headers"))], body)
    return {
        "webhook": name,
        "event": found.event,
        "wanted": found.wanted,
        "refusing": found.refusing,
        "refused": found.refused,
        "filters": [_line(line) for line in found.lines],
    }


def _pairs(given: object) -> list[tuple[str, str]]:
    pairs = [] if given is None else given
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair) for pair in pairs
    ):
        raise UsageError("the parameter headers is not a list of names and values")
    return [(name, value) for name, value in pairs]


def _line(line: ExplanationLine) -> dict[str, Any]:
    return {
        "name": line.name,
        "depth": line.depth,
        "says": line.says,
        "values": list(line.values),
        "found": line.found,
        "holds": line.holds,
        "refused": line.refused,
    }
