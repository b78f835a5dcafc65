"""Azure Event Grid."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from dslc.blocks.options import Options
from dslc.blocks.values.types import Form, HeaderName, Relation
from runtime.webhooks.handshakes import PERMISSION, Handshake, by_method, safe_challenge
from runtime.webhooks.providers.jwt import Texts
from runtime.webhooks.providers.provider import MIB, Provider, SummaryField
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.request.static_response import StaticAnswer
from runtime.webhooks.schemes.jwt import Jwt
from runtime.webhooks.schemes.token import Token

_VALIDATION = "Microsoft.EventGrid.SubscriptionValidationEvent"
_TENANT = Form("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "a tenant's id: a UUID in small letters")


def _validate(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
    """Answer Event Grid's validation event: return its code as JSON."""
    if b"SubscriptionValidation" not in request.body:
        return None
    match payload.value_or_none():
        case [{"eventType": kind, "data": {"validationCode": code}}] if kind == _VALIDATION:
            if safe_challenge(code) is not None:
                return StaticAnswer(200, "application/json", json.dumps({"validationResponse": code}).encode())
    return None


class EventGridOptions(Options):
    """The authentication of Event Grid: a token, or Microsoft Entra ID."""

    header: HeaderName = Field(
        "X-Webhook-Token",
        description="The (secret) delivery property with the token; not used with `tenant`.",
    )
    tenant: Annotated[str | None, _TENANT, Relation(needs=("audience",))] = Field(
        None,
        description="The Entra tenant whose tokens are accepted; the webhook then has no `secret`.",
        examples=["0a1b2c3d-0000-4000-8000-000000000000"],
    )
    audience: Annotated[Texts, Relation(needs=("tenant",))] = Field(
        (), min_length=1, description="The audience of tokens: an application id or URI.", examples=[["api://hooks"]]
    )


def configure(row: Provider, options: EventGridOptions) -> Provider:
    """Return the row for `options`."""
    if options.tenant is None:
        return replace(row, scheme=Token(header=options.header))
    login = f"https://login.microsoftonline.com/{options.tenant}"
    scheme = Jwt(
        issuer=(f"https://sts.windows.net/{options.tenant}/", f"{login}/v2.0"),
        audience=options.audience,
        jwks_url=f"{login}/discovery/v2.0/keys",
        configured=False,
        leeway=60,
    )
    return replace(row, scheme=scheme, keyless=True)


AZURE_EVENT_GRID = Provider(
    name="azure-event-grid",
    title="Azure Event Grid",
    doc="Azure Event Grid, in its own schema or as CloudEvents. It does not sign: the secret is "
    "your own token, which it sends in a header, or none with `tenant`.",
    doc_url="https://learn.microsoft.com/en-us/azure/event-grid/end-point-validation-event-grid-events-schema",
    scheme=Token(header="X-Webhook-Token"),
    # Its own schema validates with an event; CloudEvents, single or in a list, with OPTIONS.
    handshake=by_method(Handshake("POST: `validationCode` is echoed as JSON", _validate), PERMISSION),
    # https://learn.microsoft.com/en-us/azure/event-grid/event-schema: 1 MB, and its envelope
    body_limit=2 * MIB,
    event=("$[0].eventType", "$.type", "$[0].type"),
    # A CloudEvent's id is unique within its source (CloudEvents 1.0, `id`).
    delivery_id=("$.source + $.id", "$[*].source + $[*].id", "$[*].id"),
    summary_fields=(
        SummaryField("event", ("$[0].eventType", "$.type", "$[0].type")),
        SummaryField("subject", ("$[0].subject", "$.subject")),
        SummaryField("topic", ("$[0].topic", "$.source", "$[0].source")),
        SummaryField("at", ("$[0].eventTime", "$.time", "$[0].time")),
    ),
    options=EventGridOptions,
    configure=configure,
    keyless_by="tenant",
)
