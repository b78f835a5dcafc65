"""Okta event hooks."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from pydantic import Field

from dslc.blocks.options import Options
from dslc.blocks.values.types import HeaderName
from runtime.webhooks.handshakes import Handshake
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.request.static_response import StaticAnswer
from runtime.webhooks.schemes.token import Token

_CHALLENGE = re.compile(r"[A-Za-z0-9._~+/=-]{1,256}")


def _verify(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
    """Answer Okta's one-time verification GET: return its header as JSON."""
    challenge = request.headers.one("x-okta-verification-challenge", repeated="ambiguous_header")
    if challenge is None:
        return None
    if not _CHALLENGE.fullmatch(challenge):
        raise RefusedRequest("malformed_event")
    return StaticAnswer(200, "application/json", json.dumps({"verification": challenge}).encode())


class OktaOptions(Options):
    """The header in which Okta sends the secret."""

    header: HeaderName = Field("Authorization", description="The authentication field of the event hook.")


def configure(row: Provider, options: OktaOptions) -> Provider:
    """Return the row with the header of `options`."""
    return replace(row, scheme=Token(header=options.header))


OKTA = Provider(
    name="okta",
    title="Okta",
    doc="Okta event hooks. Okta does not sign: the secret is the event hook's authentication secret, as it is sent.",
    doc_url="https://developer.okta.com/docs/concepts/event-hooks/",
    scheme=Token(header="Authorization"),
    handshake=Handshake("GET: `X-Okta-Verification-Challenge` is echoed as JSON", _verify, methods=("GET",)),
    event=("$.data.events[0].eventType",),
    delivery_id=("$.eventId",),
    summary_fields=(
        SummaryField("event", ("$.data.events[0].displayMessage",)),
        SummaryField("actor", ("$.data.events[0].actor.alternateId", "$.data.events[0].actor.displayName")),
        SummaryField("target", ("$.data.events[0].target[0].alternateId", "$.data.events[0].target[0].displayName")),
        SummaryField("outcome", ("$.data.events[0].outcome.result",)),
        SummaryField("at", ("$.data.events[0].published",)),
    ),
    options=OktaOptions,
    configure=configure,
)
