"""Square."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

SQUARE = Provider(
    name="square",
    title="Square",
    doc="Events of Square. It signs the URL, so `public_url` is needed: the notification URL as it is subscribed.",
    doc_url="https://developer.squareup.com/docs/webhooks/step3validate",
    scheme=Hmac(header="X-Square-HmacSha256-Signature", encoding="base64", payload="{url}{body}"),
    event=("$.type",),
    delivery_id=("$.event_id",),
    summary_fields=(
        SummaryField("merchant", ("$.merchant_id",)),
        SummaryField("object", ("$.data.type",)),
        SummaryField("id", ("$.data.id",)),
        SummaryField(
            "status", ("$.data.object.payment.status", "$.data.object.invoice.status", "$.data.object.refund.status")
        ),
        SummaryField(
            "amount", ("$.data.object.payment.amount_money.amount", "$.data.object.refund.amount_money.amount")
        ),
        SummaryField(
            "currency", ("$.data.object.payment.amount_money.currency", "$.data.object.refund.amount_money.currency")
        ),
    ),
)
