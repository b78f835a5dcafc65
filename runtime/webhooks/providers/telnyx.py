"""Telnyx."""

from __future__ import annotations

from runtime.webhooks.keys.public_key import ed25519_key
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.public_key import PublicKey

TELNYX = Provider(
    name="telnyx",
    title="Telnyx",
    doc="Telnyx messages, calls and faxes (API v2). The secret is the account's public key.",
    doc_url="https://developers.telnyx.com/docs/development/sdk/python/webhooks",
    scheme=PublicKey(
        key=ed25519_key,
        header="telnyx-signature-ed25519",
        payload="{timestamp}|{body}",
        timestamp_header="telnyx-timestamp",
    ),
    event=("$.data.event_type",),
    delivery_id=("$.data.id",),
    summary_fields=(
        SummaryField("from", ("$.data.payload.from.phone_number", "$.data.payload.from")),
        SummaryField("to", ("$.data.payload.to[0].phone_number", "$.data.payload.to")),
        SummaryField("direction", ("$.data.payload.direction",)),
        SummaryField("text", ("$.data.payload.text",)),
        SummaryField("state", ("$.data.payload.state", "$.data.payload.status")),
    ),
)
