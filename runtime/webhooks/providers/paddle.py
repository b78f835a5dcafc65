"""Paddle."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
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
    summary_fields=(
        SummaryField("id", ("$.data.id",)),
        SummaryField("status", ("$.data.status",)),
        SummaryField("customer", ("$.data.customer_id",)),
        SummaryField("subscription", ("$.data.subscription_id",)),
        SummaryField("total in minor units", ("$.data.details.totals.grand_total",)),
        SummaryField("currency", ("$.data.currency_code",)),
    ),
)
