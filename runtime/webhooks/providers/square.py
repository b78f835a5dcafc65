"""Square."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
from runtime.webhooks.schemes.hmac import Hmac

SQUARE = Provider(
    name="square",
    title="Square",
    doc="Events of Square. It signs the URL, so `public_url` is needed: the notification URL as it is subscribed.",
    doc_url="https://developer.squareup.com/docs/webhooks/step3validate",
    scheme=Hmac(header="X-Square-HmacSha256-Signature", encoding="base64", payload="{url}{body}"),
    event=("$.type",),
    delivery_id=("$.event_id",),
    facts=(
        Fact("merchant", ("$.merchant_id",)),
        Fact("object", ("$.data.type",)),
        Fact("id", ("$.data.id",)),
        Fact("status", ("$.data.object.payment.status", "$.data.object.invoice.status", "$.data.object.refund.status")),
        Fact("amount", ("$.data.object.payment.amount_money.amount", "$.data.object.refund.amount_money.amount")),
        Fact("currency", ("$.data.object.payment.amount_money.currency", "$.data.object.refund.amount_money.currency")),
    ),
)
