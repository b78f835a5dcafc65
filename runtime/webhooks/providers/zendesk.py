"""Zendesk."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

ZENDESK = Provider(
    name="zendesk",
    title="Zendesk",
    doc="Webhooks of Zendesk.",
    doc_url="https://developer.zendesk.com/documentation/webhooks/verifying/",
    scheme=Hmac(
        header="X-Zendesk-Webhook-Signature",
        encoding="base64",
        payload="{timestamp}{body}",
        timestamp_header="X-Zendesk-Webhook-Signature-Timestamp",
        unit="rfc3339",
        tolerance=300,
    ),
    event=("$.type",),
    delivery_id=("header:X-Zendesk-Webhook-Invocation-Id",),
    summary_fields=(
        SummaryField("subject", ("$.subject", "$.detail.subject")),
        SummaryField("id", ("$.detail.id",)),
        SummaryField("status", ("$.detail.status",)),
        SummaryField("priority", ("$.detail.priority",)),
        SummaryField("email", ("$.detail.email",)),
        SummaryField("account", ("$.account_id",)),
    ),
)
