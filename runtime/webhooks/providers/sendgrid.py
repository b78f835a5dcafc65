"""Twilio SendGrid."""

from __future__ import annotations

from runtime.webhooks.keys.public_key import p256_key
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.public_key import PublicKey

SENDGRID = Provider(
    name="sendgrid",
    title="SendGrid",
    doc="SendGrid's signed event webhook: several events in one delivery. The secret is the verification key.",
    doc_url="https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/"
    "getting-started-event-webhook-security-features",
    scheme=PublicKey(
        key=p256_key,
        header="X-Twilio-Email-Event-Webhook-Signature",
        payload="{timestamp}{body}",
        timestamp_header="X-Twilio-Email-Event-Webhook-Timestamp",
    ),
    delivery_id=("$[*].sg_event_id",),
    event=("$[0].event",),
    summary_fields=(
        SummaryField("event", ("$[0].event",)),
        SummaryField("email", ("$[0].email",)),
        SummaryField("reason", ("$[0].reason",)),
        SummaryField("message", ("$[0].sg_message_id",)),
    ),
)
