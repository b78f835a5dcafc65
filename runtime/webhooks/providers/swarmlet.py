"""Swarmlet: the scheme of webhooks created through the API."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Fields

SWARMLET = Provider(
    name="swarmlet",
    title="Swarmlet",
    doc="A timestamped HMAC for senders of your own: `X-Swarmlet-Signature: t=…,v1=…` over `{timestamp}.{body}`.",
    scheme=Hmac(header="X-Swarmlet-Signature", form=Fields(), payload="{timestamp}.{body}", tolerance=300),
)
