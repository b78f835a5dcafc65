"""A sender that uses a name and a password."""

from __future__ import annotations

from dslc.blocks.options import Options
from runtime.webhooks.providers.custom import ACCEPTED, DUPLICATE_KEYS, DuplicateKeys, decoded
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.schemes.basic import Basic


class BasicOptions(Options):
    """The reading of bodies."""

    duplicate_keys: DuplicateKeys = DUPLICATE_KEYS


def configure(row: Provider, options: BasicOptions) -> Provider:
    """Return the row for `options`."""
    return decoded(row, options.duplicate_keys)


BASIC = Provider(
    name="basic",
    title="Webhook",
    doc="Any sender with basic authentication (RFC 7617); the secret is `name:password`. Its body is not signed.",
    doc_url="https://www.rfc-editor.org/rfc/rfc7617",
    scheme=Basic(),
    compression="content",
    decoder=ACCEPTED,
    options=BasicOptions,
    configure=configure,
)
