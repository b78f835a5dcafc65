"""Shopify."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
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
    facts=(
        Fact("order", ("$.name", "$.order_number")),
        Fact("title", ("$.title",)),
        Fact("id", ("$.id",)),
        Fact("total", ("$.total_price", "$.current_total_price")),
        Fact("currency", ("$.currency",)),
        Fact("paid", ("$.financial_status",)),
        Fact("fulfilled", ("$.fulfillment_status",)),
        Fact("email", ("$.email", "$.customer.email")),
    ),
)
