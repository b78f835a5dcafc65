"""Providers: clouds, and services that manage logins."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Annotated, Final

from pydantic import Field

from dslc.blocks.options import Options
from dslc.blocks.values.types import Form, HeaderName, Relation
from runtime.webhooks.handshakes import PERMISSION, Handshake, by_method, safe_challenge
from runtime.webhooks.providers.custom import PUBLIC, Algorithms, JwksUrl, Texts
from runtime.webhooks.providers.provider import MIB, Provider
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import StaticAnswer, WebhookRequest, query_parameters
from runtime.webhooks.schemes.jwt import Jwt
from runtime.webhooks.schemes.token import BodyToken, Token, without

_VALIDATION = "Microsoft.EventGrid.SubscriptionValidationEvent"
_TENANT = Form("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "a tenant's id: a UUID in small letters")


def _validate_event_grid(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
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
        "X-Webhook-Token", description="The (secret) delivery property with the token; not used with `tenant`."
    )
    tenant: Annotated[str | None, _TENANT, Relation(needs=("audience",))] = Field(
        None,
        description="The Entra tenant whose tokens are accepted; the webhook then has no `secret`.",
        examples=["0a1b2c3d-0000-4000-8000-000000000000"],
    )
    audience: Annotated[Texts, Relation(needs=("tenant",))] = Field(
        (), min_length=1, description="The audience of tokens: an application id or URI.", examples=[["api://hooks"]]
    )


def _configure_event_grid(row: Provider, options: EventGridOptions) -> Provider:
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
    handshake=by_method(Handshake("POST: `validationCode` is echoed as JSON", _validate_event_grid), PERMISSION),
    # https://learn.microsoft.com/en-us/azure/event-grid/event-schema: 1 MB, and its envelope
    body_limit=2 * MIB,
    event=("$[0].eventType", "$.type", "$[0].type"),
    # A CloudEvent's id is unique within its source (CloudEvents 1.0, `id`).
    delivery_id=("$.source + $.id", "$[*].source + $[*].id", "$[*].id"),
    options=EventGridOptions,
    configure=_configure_event_grid,
    keyless_by="tenant",
)


# Graph sends `Validation: Testing client application reachability for subscription Request-Id: …`.
_GRAPH_TOKEN = re.compile(r"[A-Za-z0-9 .:;,()_+/=-]{1,1024}")


def _validate_graph(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
    """Answer an empty POST whose query has one `validationToken` with this token as plain text. SharePoint writes the
    name in lower case."""
    parameters = query_parameters(request.query).items()
    tokens = [value for name, value in parameters if name.lower() == "validationtoken"]
    if request.body or len(tokens) != 1 or not _GRAPH_TOKEN.fullmatch(tokens[0]):
        return None
    return StaticAnswer(body=tokens[0].encode())


MICROSOFT_GRAPH = Provider(
    name="microsoft-graph",
    title="Microsoft Graph",
    doc="Change notifications of Microsoft 365. Graph does not sign: the secret is the "
    "subscription's `clientState`, which every notification of a delivery must contain.",
    doc_url="https://learn.microsoft.com/en-us/graph/change-notifications-delivery-webhooks",
    scheme=BodyToken(items="$.value[*]", field="clientState", wrap=lambda item: {"value": [item]}),
    decoder=without("clientState", items="$.value[*]"),
    handshake=Handshake("POST: `validationToken` is echoed", _validate_graph),
    delivery_id=("$.value[*].id",),
    event=("$.value[0].lifecycleEvent", "$.value[0].changeType"),
)


_GOOGLE = Jwt(
    algorithms=("RS256",),
    issuer=("https://accounts.google.com", "accounts.google.com"),
    jwks_url="https://www.googleapis.com/oauth2/v3/certs",
    configured=False,
    leeway=60,
)


class PubSubOptions(Options):
    """The accepted tokens. Both options are needed: Google issues tokens to anyone, for any audience."""

    audience: Texts = Field(
        min_length=1,
        description="The subscription's audience; by default the push endpoint's URL.",
        examples=[["https://example.org/hooks/pubsub"]],
    )
    service_account: str = Field(
        description="The e-mail address of the subscription's service account.",
        examples=["push@project.iam.gserviceaccount.com"],
        min_length=3,
    )


def _configure_pubsub(row: Provider, options: PubSubOptions) -> Provider:
    """Return the row for the tokens of `options`."""
    claims = (("email", options.service_account), ("email_verified", True))
    return replace(row, scheme=replace(_GOOGLE, audience=options.audience, claims=claims))


GOOGLE_PUBSUB = Provider(
    name="google-pubsub",
    title="Google Pub/Sub",
    doc="Authenticated push subscriptions of Google Cloud Pub/Sub. The token proves the sender, not the content.",
    doc_url="https://docs.cloud.google.com/pubsub/docs/authenticate-push-subscriptions",
    scheme=_GOOGLE,
    # https://docs.cloud.google.com/pubsub/quotas#resource_limits: 10 MB of data, in base64
    body_limit=14 * MIB,
    event=("$.message.attributes.eventType",),
    delivery_id=("$.message.messageId",),
    options=PubSubOptions,
    configure=_configure_pubsub,
    keyless=True,
)


_OKTA_CHALLENGE = re.compile(r"[A-Za-z0-9._~+/=-]{1,256}")


def _verify_okta(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
    """Answer Okta's one-time verification GET: return its header as JSON."""
    challenge = request.headers.one("x-okta-verification-challenge", repeated="ambiguous_header")
    if challenge is None:
        return None
    if not _OKTA_CHALLENGE.fullmatch(challenge):
        raise RefusedRequest("malformed_event")
    return StaticAnswer(200, "application/json", json.dumps({"verification": challenge}).encode())


class OktaOptions(Options):
    """The header in which Okta sends the secret."""

    header: HeaderName = Field("Authorization", description="The authentication field of the event hook.")


OKTA = Provider(
    name="okta",
    title="Okta",
    doc="Okta event hooks. Okta does not sign: the secret is the event hook's authentication secret, as it is sent.",
    doc_url="https://developer.okta.com/docs/concepts/event-hooks/",
    scheme=Token(header="Authorization"),
    handshake=Handshake("GET: `X-Okta-Verification-Challenge` is echoed as JSON", _verify_okta, methods=("GET",)),
    event=("$.data.events[0].eventType",),
    delivery_id=("$.eventId",),
    options=OktaOptions,
    configure=lambda row, options: replace(row, scheme=Token(header=options.header)),
)


_FUSIONAUTH = Jwt(
    header="X-FusionAuth-Signature-JWT", algorithms=("HS256",), expires=False, body_claim="request_body_sha256"
)


class FusionAuthOptions(Options):
    """The signing key configured for the webhook."""

    algorithms: Algorithms = Field(
        ("HS256",), description="The algorithms of the key: one or several, all of one family.", examples=[["RS256"]]
    )
    # HMAC is the default; its key is never published.
    jwks_url: Annotated[JwksUrl | None, Relation(needs=("algorithms",), refuses=PUBLIC.refuses)] = Field(
        None,
        description="The https URL of FusionAuth's public keys; the webhook then has no `secret`.",
        examples=["https://auth.example.org/.well-known/jwks.json"],
    )


def _configure_fusionauth(row: Provider, options: FusionAuthOptions) -> Provider:
    """Return the row with the key of `options`."""
    scheme = replace(_FUSIONAUTH, algorithms=options.algorithms, jwks_url=options.jwks_url)
    return replace(row, scheme=scheme, keyless=options.jwks_url is not None)


FUSIONAUTH = Provider(
    name="fusionauth",
    title="FusionAuth",
    doc="FusionAuth's signed webhooks. The secret is the signing key: an HMAC secret, or the public key as PEM.",
    doc_url="https://fusionauth.io/docs/extend/events-and-webhooks/signing",
    scheme=_FUSIONAUTH,
    event=("$.event.type",),
    delivery_id=("$.event.id",),
    options=FusionAuthOptions,
    configure=_configure_fusionauth,
    keyless_by="jwks_url",
)

CLOUDS: Final = (AZURE_EVENT_GRID, FUSIONAUTH, GOOGLE_PUBSUB, MICROSOFT_GRAPH, OKTA)
