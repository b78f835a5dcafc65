"""Lemon Squeezy."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
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
    # Of an object only `updated_at` tells two events from one another.
    delivery_id=(BODY,),
    answer=OK,
    facts=(
        Fact("kind", ("$.data.type",)),
        Fact("id", ("$.data.id",)),
        Fact("status", ("$.data.attributes.status",)),
        Fact("product", ("$.data.attributes.product_name", "$.data.attributes.first_order_item.product_name")),
        Fact("total", ("$.data.attributes.total_formatted",)),
        Fact("email", ("$.data.attributes.user_email",)),
        Fact("test mode", ("$.meta.test_mode",)),
    ),
)
