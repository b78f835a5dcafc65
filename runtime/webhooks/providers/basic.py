"""A sender that uses a name and a password."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.payload import json_or_form
from runtime.webhooks.schemes.basic import Basic

BASIC = Provider(
    name="basic",
    title="Webhook",
    doc="Any sender with basic authentication (RFC 7617); the secret is `name:password`. Its body is not signed.",
    doc_url="https://www.rfc-editor.org/rfc/rfc7617",
    scheme=Basic(),
    decoder=json_or_form("payload", plain=True),
)
