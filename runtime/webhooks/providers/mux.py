"""Mux."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
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
    facts=(
        Fact("object", ("$.object.type",)),
        Fact("id", ("$.object.id",)),
        Fact("status", ("$.data.status",)),
        Fact("duration", ("$.data.duration",)),
        Fact("playback id", ("$.data.playback_ids[0].id",)),
        Fact("environment", ("$.environment.name",)),
        Fact("error", ("$.data.errors.messages[0]",)),
    ),
)
