"""Stripe."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Fields

STRIPE = Provider(
    name="stripe",
    title="Stripe",
    doc="Stripe events. The whole signing secret, its `whsec_` included, is the key.",
    doc_url="https://docs.stripe.com/webhooks/signature",
    scheme=Hmac(header="Stripe-Signature", form=Fields(), payload="{timestamp}.{body}", tolerance=300),
    event=("$.type",),
    delivery_id=("$.id",),
    summary_fields=(
        SummaryField("object", ("$.data.object.object",)),
        SummaryField("id", ("$.data.object.id",)),
        SummaryField("status", ("$.data.object.status",)),
        SummaryField("amount", ("$.data.object.amount", "$.data.object.amount_total", "$.data.object.amount_due")),
        SummaryField("currency", ("$.data.object.currency",)),
        SummaryField("customer", ("$.data.object.customer",)),
        SummaryField("live mode", ("$.livemode",)),
    ),
)
