"""Linear."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac

LINEAR = Provider(
    name="linear",
    title="Linear",
    doc="Webhooks of a Linear workspace. The time is in the body, `webhookTimestamp`.",
    doc_url="https://linear.app/developers/webhooks",
    scheme=Hmac(header="Linear-Signature", timestamp_path="$.webhookTimestamp", unit="ms", tolerance=60),
    event=("header:Linear-Event", "$.type"),
    action=("$.action",),
    sample_event="Issue",
    delivery_id=("header:Linear-Delivery",),
    answer=OK,
    facts=(
        Fact("action", ("$.action",)),
        Fact("issue", ("$.data.identifier", "$.data.issue.identifier")),
        Fact("title", ("$.data.title", "$.data.issue.title", "$.data.name")),
        Fact("state", ("$.data.state.name",)),
        Fact("comment", ("$.data.body",)),
        Fact("by", ("$.actor.name",)),
        Fact("link", ("$.url",)),
    ),
)
