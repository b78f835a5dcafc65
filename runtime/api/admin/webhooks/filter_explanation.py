"""Operation on filters: evaluate a webhook's filters on a delivery that was not sent."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from runtime.agents.thread_modes import subject_path
from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import LARGEST_DELIVERY, Body, Text
from runtime.api.admin.state import AdminContext
from runtime.clock import uuid7
from runtime.errors import UsageError
from runtime.suggestions import unknown_name
from runtime.webhooks.filters.explanation import explain, sent_headers


@operation(largest=LARGEST_DELIVERY)
async def filter_explain(
    context: AdminContext,
    name: Text,
    body: Body,
    event: Text | None = None,
    headers: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = [],  # noqa: B006 - never changed
) -> dict[str, Any]:
    """Return the result of each filter of the declared webhook `name` on `body` (base64), and the verdict.

    `event`: the event in the sender's header; `headers`: pairs that are added to the sender's own. Nothing is signed,
    sent or stored, and the webhook need not be mounted.
    """
    entry = context.mounts.get(name)
    if entry is None:
        raise unknown_name("webhook", name, context.mounts)
    if entry.declared is None:
        raise UsageError(f"the webhook {name} was created through the API and has no filters")
    sent = sent_headers(entry.declared, event, uuid7(context.clock))
    whole = [*sent, *((header, value) for header, value in headers)]
    subject = subject_path(context.program.agents.get(entry.declared.wakes or ""), entry.declared)
    found = explain(entry.declared, whole, body, decoded=entry.decoded, subject=subject)
    return {
        "webhook": name,
        "event": found.event,
        "wanted": found.wanted,
        "refusing": found.refusing,
        "refused": found.refused,
        "filters": [asdict(line) for line in found.lines],
    }
