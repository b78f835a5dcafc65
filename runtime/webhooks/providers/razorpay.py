"""Razorpay."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

RAZORPAY = Provider(
    name="razorpay",
    title="Razorpay",
    doc="Events of Razorpay.",
    doc_url="https://razorpay.com/docs/webhooks/validate-test/",
    scheme=Hmac(header="X-Razorpay-Signature"),
    event=("$.event",),
    delivery_id=("header:X-Razorpay-Event-Id",),
    summary_fields=(
        SummaryField("payment", ("$.payload.payment.entity.id",)),
        SummaryField("order", ("$.payload.order.entity.id", "$.payload.payment.entity.order_id")),
        SummaryField("status", ("$.payload.payment.entity.status", "$.payload.order.entity.status")),
        SummaryField("amount in minor units", ("$.payload.payment.entity.amount", "$.payload.order.entity.amount")),
        SummaryField("currency", ("$.payload.payment.entity.currency", "$.payload.order.entity.currency")),
        SummaryField("error", ("$.payload.payment.entity.error_description",)),
    ),
)
