"""Providers: documents, files, appointments and boards."""

from __future__ import annotations

import json
import re
from typing import Final

from runtime.webhooks.handshakes import PRESENCE_CHECK, query_echo
from runtime.webhooks.providers.provider import MIB, Provider
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.request.request import OK, StaticAnswer
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Fields, PrefixHeader
from runtime.webhooks.schemes.token import BodyToken, without

_BOX_ESCAPES = re.compile(r"\\(?!/)|[^\x20-\x7e]")
_BOX_SHORT = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(body: bytes) -> bytes:
    """Return the body as Box signs it if names are not ASCII: escaped again, as if inside a JSON string. A body that is
    only ASCII, or not UTF-8, is returned unchanged.

    So a signed ASCII body with both an escaped letter and a backslash has a second form with the same MAC. It is
    unknown which of the two Box sent. An attacker who captured one before it arrived could send the other, in which
    some backslashes are missing; after either has arrived, the MAC is known, and the other is refused as replayed.
    """
    if body.isascii():
        return body
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    return _BOX_ESCAPES.sub(lambda found: _BOX_SHORT.get(found[0]) or json.dumps(found[0])[1:-1], text).encode()


_HUBSPOT_DECODES = {f"%{ord(each):02X}": each for each in ":/?@!$'()*,;"}


def signed_url(url: str) -> str:
    """Return the URL with these escapes decoded and no others, as it may be signed; HubSpot's library does not change
    it."""
    return re.sub(
        "|".join(_HUBSPOT_DECODES), lambda found: _HUBSPOT_DECODES[found[0].upper()], url, flags=re.IGNORECASE
    )


OFFICE: Final = (
    Provider(
        name="calendly",
        title="Calendly",
        doc="Events of invitees and routing forms at Calendly.",
        doc_url="https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures",
        scheme=Hmac(header="Calendly-Webhook-Signature", form=Fields(), payload="{timestamp}.{body}", tolerance=180),
        event=("$.event",),
        # `created_at` is in every body; the signature differs for each attempt.
        delivery_id=(BODY,),
    ),
    Provider(
        name="docusign",
        title="DocuSign",
        doc="DocuSign Connect, in its JSON format. Use any of the account's HMAC keys.",
        doc_url="https://developers.docusign.com/platform/webhooks/connect/validate",
        # One numbered header for each of the account's keys.
        scheme=Hmac(
            header="X-DocuSign-Signature-1",
            more_headers=tuple(f"X-DocuSign-Signature-{number}" for number in range(2, 101)),
            encoding="base64",
        ),
        # https://developers.docusign.com/docs/esign-rest-api/esign101/rules-and-limits/: an envelope's documents, 25 MB
        body_limit=25 * MIB,
        event=("$.event",),
        delivery_id=("$.data.envelopeId + $.event + $.generatedDateTime",),
    ),
    Provider(
        name="dropbox",
        title="Dropbox",
        doc="Notifications that files of a Dropbox app's users changed, without their names. The secret "
        "is the app's secret.",
        doc_url="https://www.dropbox.com/developers/reference/webhooks",
        scheme=Hmac(header="X-Dropbox-Signature"),
        handshake=query_echo("challenge"),
        answer=OK,
    ),
    Provider(
        name="elevenlabs",
        title="ElevenLabs",
        doc="Calls and transcriptions of ElevenLabs' agents.",
        doc_url="https://elevenlabs.io/docs/eleven-agents/workflows/post-call-webhooks",
        # Half an hour, as in the vendor's library.
        scheme=Hmac(
            header="ElevenLabs-Signature", form=Fields(signature="v0"), payload="{timestamp}.{body}", tolerance=1800
        ),
        event=("$.type",),
        delivery_id=("$.type + $.data.conversation_id",),
        answer=OK,
    ),
    Provider(
        name="figma",
        title="Figma",
        doc="Figma's webhooks (V2). It does not sign: the secret is the webhook's passcode, which is in the body.",
        doc_url="https://developers.figma.com/docs/rest-api/webhooks-security/",
        scheme=BodyToken(field="passcode"),
        decoder=without("passcode"),
        answer=StaticAnswer(200),
        event=("$.event_type",),
        delivery_id=("$.webhook_id + $.timestamp",),
    ),
    Provider(
        name="trello",
        title="Trello",
        doc="Changes of a Trello board or card, signed with SHA-1, the only option. It signs the "
        "callback URL too, so `public_url` is needed. The secret is the app's.",
        doc_url="https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks",
        scheme=Hmac(header="X-Trello-Webhook", algorithm="sha1", encoding="base64", payload="{body}{url}"),
        handshake=PRESENCE_CHECK,
        event=("$.action.type",),
        delivery_id=("$.action.id",),
        answer=OK,
    ),
    Provider(
        name="typeform",
        title="Typeform",
        doc="Answers to a Typeform.",
        doc_url="https://www.typeform.com/developers/webhooks/secure-your-webhooks/",
        scheme=Hmac(header="Typeform-Signature", form=PrefixHeader("sha256="), encoding="base64"),
        event=("$.event_type",),
        delivery_id=("$.event_id",),
    ),
    Provider(
        name="box",
        title="Box",
        doc="Box's V2 webhooks. Use one of the app's two signature keys, or both while one is being changed.",
        doc_url="https://developer.box.com/guides/webhooks/v2/signatures-v2",
        scheme=Hmac(
            header="BOX-SIGNATURE-PRIMARY",
            more_headers=("BOX-SIGNATURE-SECONDARY",),
            encoding="base64",
            payload="{body}{timestamp}",
            timestamp_header="BOX-DELIVERY-TIMESTAMP",
            unit="rfc3339",
            tolerance=600,
            rewritten=escaped,
        ),
        handshake=PRESENCE_CHECK,
        event=("$.trigger",),
        # Not BOX-DELIVERY-ID, which differs for every attempt.
        delivery_id=("$.id",),
    ),
    Provider(
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
    ),
)
