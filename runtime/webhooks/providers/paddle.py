"""Paddle."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Fields

PADDLE = Provider(
    name="paddle",
    title="Paddle",
    doc="Notifications of Paddle Billing. The whole secret, its `pdl_ntfset_` included, is the key.",
    doc_url="https://developer.paddle.com/webhooks/signature-verification",
    scheme=Hmac(
        header="Paddle-Signature",
        form=Fields(timestamp="ts", signature="h1", separator=";"),
        payload="{timestamp}:{body}",
        tolerance=300,
    ),
    event=("$.event_type",),
    delivery_id=("$.notification_id", "$.event_id"),
    answer=OK,
    facts=(
        Fact("id", ("$.data.id",)),
        Fact("status", ("$.data.status",)),
        Fact("customer", ("$.data.customer_id",)),
        Fact("subscription", ("$.data.subscription_id",)),
        Fact("total in minor units", ("$.data.details.totals.grand_total",)),
        Fact("currency", ("$.data.currency_code",)),
    ),
)
