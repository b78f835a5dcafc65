"""WooCommerce."""

from __future__ import annotations

from runtime.webhooks.handshakes.echo import FormPing
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

WOOCOMMERCE = Provider(
    name="woocommerce",
    title="WooCommerce",
    doc="Webhooks of a WooCommerce shop.",
    doc_url="https://developer.woocommerce.com/docs/webhooks/",
    scheme=Hmac(header="X-WC-Webhook-Signature", encoding="base64"),
    # A new webhook is tested with an unsigned form.
    handshake=FormPing(name="webhook_id"),
    event=("header:X-WC-Webhook-Topic",),
    sample_event="order.created",
    delivery_id=("header:X-WC-Webhook-Delivery-ID",),
    summary_fields=(
        SummaryField("order", ("$.number",)),
        SummaryField("name", ("$.name",)),
        SummaryField("id", ("$.id",)),
        SummaryField("status", ("$.status",)),
        SummaryField("total", ("$.total", "$.price")),
        SummaryField("currency", ("$.currency",)),
        SummaryField("email", ("$.billing.email", "$.email")),
    ),
)
