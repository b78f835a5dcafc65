"""Linear."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
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
    summary_fields=(
        SummaryField("action", ("$.action",)),
        SummaryField("issue", ("$.data.identifier", "$.data.issue.identifier")),
        SummaryField("title", ("$.data.title", "$.data.issue.title", "$.data.name")),
        SummaryField("state", ("$.data.state.name",)),
        SummaryField("comment", ("$.data.body",)),
        SummaryField("by", ("$.actor.name",)),
        SummaryField("link", ("$.url",)),
    ),
)
