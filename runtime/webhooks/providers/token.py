"""A sender that sends a shared token in a header."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from dslc.blocks.options import Options
from runtime.webhooks.providers.custom import EVENT_HEADER, ID_HEADER, OneHeader, Prefix, identified
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.payload import json_or_form
from runtime.webhooks.schemes.token import Token


class TokenOptions(Options):
    """The header with the token. A token in the URL would appear in every log on its way."""

    header: OneHeader = Field("X-Webhook-Token", description="The header with the token.")
    prefix: Prefix = Field("", description="The text before the token in its header.", examples=["Bearer "])
    id_header: OneHeader | None = ID_HEADER
    event_header: OneHeader | None = EVENT_HEADER


def configure(row: Provider, options: TokenOptions) -> Provider:
    """Return the row for `options`."""
    scheme = Token(header=options.header, prefix=options.prefix)
    return identified(replace(row, scheme=scheme), options.event_header, options.id_header)


TOKEN = Provider(
    name="token",
    title="Webhook",
    doc="Any sender with a shared token in a header. Its body is not signed.",
    scheme=Token(header="X-Webhook-Token"),
    decoder=json_or_form("payload", plain=True),
    options=TokenOptions,
    configure=configure,
    event_by="event_header",
)
