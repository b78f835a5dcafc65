"""Calendly."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Fields

CALENDLY = Provider(
    name="calendly",
    title="Calendly",
    doc="Events of invitees and routing forms at Calendly.",
    doc_url="https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures",
    scheme=Hmac(header="Calendly-Webhook-Signature", form=Fields(), payload="{timestamp}.{body}", tolerance=180),
    event=("$.event",),
    # `created_at` is in every body; the signature differs for each attempt.
    delivery_id=(BODY,),
    summary_fields=(
        SummaryField("event", ("$.payload.scheduled_event.name",)),
        SummaryField("invitee", ("$.payload.name",)),
        SummaryField("email", ("$.payload.email",)),
        SummaryField("start", ("$.payload.scheduled_event.start_time",)),
        SummaryField("status", ("$.payload.status",)),
        SummaryField("reason", ("$.payload.cancellation.reason",)),
    ),
)
