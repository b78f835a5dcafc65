"""Chargebee."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.basic import Basic

CHARGEBEE = Provider(
    name="chargebee",
    title="Chargebee",
    doc="Chargebee events. It does not sign: the secret is the `name:password` of the webhook's basic auth.",
    doc_url="https://www.chargebee.com/docs/2.0/events_and_webhooks.html",
    scheme=Basic(),
    event=("$.event_type",),
    delivery_id=("$.id",),
    summary_fields=(
        SummaryField("customer", ("$.content.customer.email", "$.content.customer.id")),
        SummaryField("subscription", ("$.content.subscription.id",)),
        SummaryField("plan", ("$.content.subscription.subscription_items[0].item_price_id",)),
        SummaryField("invoice", ("$.content.invoice.id",)),
        SummaryField("amount", ("$.content.transaction.amount", "$.content.invoice.total")),
    ),
)
