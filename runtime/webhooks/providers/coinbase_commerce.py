"""Coinbase Commerce."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac

COINBASE_COMMERCE = Provider(
    name="coinbase-commerce",
    title="Coinbase Commerce",
    doc="Charges of Coinbase Commerce.",
    doc_url="https://docs.cdp.coinbase.com/commerce/api-arcitecture/webhooks-security",
    scheme=Hmac(header="X-CC-Webhook-Signature"),
    event=("$.event.type",),
    # Not `$.id`, which differs for every attempt.
    delivery_id=("$.event.id",),
    answer=OK,
    summary_fields=(
        SummaryField("charge", ("$.event.data.code",)),
        SummaryField("name", ("$.event.data.name",)),
        SummaryField("amount", ("$.event.data.pricing.local.amount",)),
        SummaryField("currency", ("$.event.data.pricing.local.currency",)),
        SummaryField("status", ("$.event.data.timeline[-1].status",)),
    ),
)
