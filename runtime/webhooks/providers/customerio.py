"""Customer.io."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

CUSTOMERIO = Provider(
    name="customerio",
    title="Customer.io",
    doc="Reporting webhooks of Customer.io.",
    doc_url="https://docs.customer.io/journeys/webhooks/",
    scheme=Hmac(
        header="X-CIO-Signature",
        payload="v0:{timestamp}:{body}",
        timestamp_header="X-CIO-Timestamp",
        tolerance=300,
    ),
    event=("$.object_type + $.metric", "$.metric"),
    delivery_id=("$.event_id",),
    summary_fields=(
        SummaryField("metric", ("$.metric",)),
        SummaryField("kind", ("$.object_type",)),
        SummaryField("recipient", ("$.data.recipient", "$.data.identifiers.email", "$.data.email_address")),
        SummaryField("subject", ("$.data.subject",)),
        SummaryField("campaign", ("$.data.campaign_id", "$.data.broadcast_id")),
        SummaryField("link", ("$.data.href",)),
        SummaryField("failure", ("$.data.failure_message",)),
    ),
)
