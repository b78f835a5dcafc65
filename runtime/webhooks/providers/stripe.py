"""Stripe."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
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
    facts=(
        Fact("object", ("$.data.object.object",)),
        Fact("id", ("$.data.object.id",)),
        Fact("status", ("$.data.object.status",)),
        Fact("amount", ("$.data.object.amount", "$.data.object.amount_total", "$.data.object.amount_due")),
        Fact("currency", ("$.data.object.currency",)),
        Fact("customer", ("$.data.object.customer",)),
        Fact("live mode", ("$.livemode",)),
    ),
)
