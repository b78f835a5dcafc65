"""PagerDuty."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Listed

PAGERDUTY = Provider(
    name="pagerduty",
    title="PagerDuty",
    doc="PagerDuty's V3 webhooks.",
    doc_url="https://developer.pagerduty.com/docs/webhooks/webhook-signatures/",
    scheme=Hmac(header="X-PagerDuty-Signature", form=Listed("v1=", ",")),
    event=("$.event.event_type",),
    delivery_id=("$.event.id",),
    facts=(
        Fact("title", ("$.event.data.title", "$.event.data.incident.summary")),
        Fact("number", ("$.event.data.number",)),
        Fact("status", ("$.event.data.status",)),
        Fact("urgency", ("$.event.data.urgency",)),
        Fact("service", ("$.event.data.service.summary",)),
        Fact("by", ("$.event.agent.summary",)),
        Fact("link", ("$.event.data.html_url",)),
    ),
)
