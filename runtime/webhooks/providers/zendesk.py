"""Zendesk."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
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
    facts=(
        Fact("subject", ("$.subject", "$.detail.subject")),
        Fact("id", ("$.detail.id",)),
        Fact("status", ("$.detail.status",)),
        Fact("priority", ("$.detail.priority",)),
        Fact("email", ("$.detail.email",)),
        Fact("account", ("$.account_id",)),
    ),
)
