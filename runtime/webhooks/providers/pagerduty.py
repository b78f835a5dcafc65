"""PagerDuty."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import ListHeader

PAGERDUTY = Provider(
    name="pagerduty",
    title="PagerDuty",
    doc="PagerDuty's V3 webhooks.",
    doc_url="https://developer.pagerduty.com/docs/webhooks/webhook-signatures/",
    scheme=Hmac(header="X-PagerDuty-Signature", form=ListHeader("v1=", ",")),
    event=("$.event.event_type",),
    delivery_id=("$.event.id",),
    summary_fields=(
        SummaryField("title", ("$.event.data.title", "$.event.data.incident.summary")),
        SummaryField("number", ("$.event.data.number",)),
        SummaryField("status", ("$.event.data.status",)),
        SummaryField("urgency", ("$.event.data.urgency",)),
        SummaryField("service", ("$.event.data.service.summary",)),
        SummaryField("by", ("$.event.agent.summary",)),
        SummaryField("link", ("$.event.data.html_url",)),
    ),
)
