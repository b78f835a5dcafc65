"""Mux."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Fields

MUX = Provider(
    name="mux",
    title="Mux",
    doc="Events of Mux Video.",
    doc_url="https://docs.mux.com/guides/verify-webhook-signatures",
    scheme=Hmac(header="Mux-Signature", form=Fields(), payload="{timestamp}.{body}", tolerance=300),
    event=("$.type",),
    delivery_id=("$.id",),
    summary_fields=(
        SummaryField("object", ("$.object.type",)),
        SummaryField("id", ("$.object.id",)),
        SummaryField("status", ("$.data.status",)),
        SummaryField("duration", ("$.data.duration",)),
        SummaryField("playback id", ("$.data.playback_ids[0].id",)),
        SummaryField("environment", ("$.environment.name",)),
        SummaryField("error", ("$.data.errors.messages[0]",)),
    ),
)
