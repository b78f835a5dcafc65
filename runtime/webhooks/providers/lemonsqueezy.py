"""Lemon Squeezy."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac

LEMONSQUEEZY = Provider(
    name="lemonsqueezy",
    title="Lemon Squeezy",
    doc="Events of a Lemon Squeezy shop.",
    doc_url="https://docs.lemonsqueezy.com/help/webhooks/signing-requests",
    scheme=Hmac(header="X-Signature"),
    event=("$.meta.event_name",),
    # Only `updated_at` distinguishes two events of an object.
    delivery_id=(BODY,),
    answer=OK,
    summary_fields=(
        SummaryField("kind", ("$.data.type",)),
        SummaryField("id", ("$.data.id",)),
        SummaryField("status", ("$.data.attributes.status",)),
        SummaryField("product", ("$.data.attributes.product_name", "$.data.attributes.first_order_item.product_name")),
        SummaryField("total", ("$.data.attributes.total_formatted",)),
        SummaryField("email", ("$.data.attributes.user_email",)),
        SummaryField("test mode", ("$.meta.test_mode",)),
    ),
)
