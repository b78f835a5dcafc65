"""Razorpay."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
from runtime.webhooks.schemes.hmac import Hmac

RAZORPAY = Provider(
    name="razorpay",
    title="Razorpay",
    doc="Events of Razorpay.",
    doc_url="https://razorpay.com/docs/webhooks/validate-test/",
    scheme=Hmac(header="X-Razorpay-Signature"),
    event=("$.event",),
    delivery_id=("header:X-Razorpay-Event-Id",),
    facts=(
        Fact("payment", ("$.payload.payment.entity.id",)),
        Fact("order", ("$.payload.order.entity.id", "$.payload.payment.entity.order_id")),
        Fact("status", ("$.payload.payment.entity.status", "$.payload.order.entity.status")),
        Fact("amount in minor units", ("$.payload.payment.entity.amount", "$.payload.order.entity.amount")),
        Fact("currency", ("$.payload.payment.entity.currency", "$.payload.order.entity.currency")),
        Fact("error", ("$.payload.payment.entity.error_description",)),
    ),
)
