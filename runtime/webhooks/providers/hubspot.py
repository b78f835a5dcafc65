"""HubSpot."""

from __future__ import annotations

import re

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

_DECODED = {f"%{ord(each):02X}": each for each in ":/?@!$'()*,;"}


def signed_url(url: str) -> str:
    """Return the URL with these escapes decoded and no others, as it may be signed; HubSpot's library does not change
    it."""
    return re.sub("|".join(_DECODED), lambda found: _DECODED[found[0].upper()], url, flags=re.IGNORECASE)


HUBSPOT = Provider(
    name="hubspot",
    title="HubSpot",
    doc="A HubSpot app's webhooks, signed in version 3. It signs the URL, so `public_url` is needed. The secret is "
    "the app's client secret.",
    doc_url="https://developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests",
    scheme=Hmac(
        header="X-HubSpot-Signature-v3",
        encoding="base64",
        payload="{method}{url}{body}{timestamp}",
        timestamp_header="X-HubSpot-Request-Timestamp",
        unit="ms",
        tolerance=300,
        url=signed_url,
    ),
    event=("$[0].subscriptionType", "$[0].eventType"),
    # According to HubSpot, event ids alone are not unique.
    delivery_id=("$[*].eventId + $[*].subscriptionId + $[*].objectId + $[*].occurredAt",),
    summary_fields=(
        SummaryField("portal", ("$[0].portalId",)),
        SummaryField("object", ("$[0].objectId",)),
        SummaryField("property", ("$[0].propertyName",)),
        SummaryField("value", ("$[0].propertyValue",)),
        SummaryField("change", ("$[0].changeFlag", "$[0].changeSource")),
    ),
)
