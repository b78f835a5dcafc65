"""Shopify."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

SHOPIFY = Provider(
    name="shopify",
    title="Shopify",
    doc="Webhooks of a Shopify app or shop. The secret is the app's client secret.",
    doc_url="https://shopify.dev/docs/apps/build/webhooks/subscribe/https",
    scheme=Hmac(header="X-Shopify-Hmac-Sha256", encoding="base64"),
    event=("header:X-Shopify-Topic",),
    sample_event="orders/create",
    delivery_id=("header:X-Shopify-Webhook-Id",),
    summary_fields=(
        SummaryField("order", ("$.name", "$.order_number")),
        SummaryField("title", ("$.title",)),
        SummaryField("id", ("$.id",)),
        SummaryField("total", ("$.total_price", "$.current_total_price")),
        SummaryField("currency", ("$.currency",)),
        SummaryField("paid", ("$.financial_status",)),
        SummaryField("fulfilled", ("$.fulfillment_status",)),
        SummaryField("email", ("$.email", "$.customer.email")),
    ),
)
