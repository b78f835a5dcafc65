"""FusionAuth."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from dslc.blocks.options import Options
from dslc.blocks.values.types import Relation
from runtime.webhooks.providers.jwt import PUBLIC, Algorithms, JwksUrl
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.jwt import Jwt

_SCHEME = Jwt(
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


def configure(row: Provider, options: FusionAuthOptions) -> Provider:
    """Return the row with the key of `options`."""
    scheme = replace(_SCHEME, algorithms=options.algorithms, jwks_url=options.jwks_url)
    return replace(row, scheme=scheme, keyless=options.jwks_url is not None)


FUSIONAUTH = Provider(
    name="fusionauth",
    title="FusionAuth",
    doc="FusionAuth's signed webhooks. The secret is the signing key: an HMAC secret, or the public key as PEM.",
    doc_url="https://fusionauth.io/docs/extend/events-and-webhooks/signing",
    scheme=_SCHEME,
    event=("$.event.type",),
    delivery_id=("$.event.id",),
    summary_fields=(
        SummaryField("type", ("$.event.type",)),
        SummaryField("user", ("$.event.user.email", "$.event.user.username", "$.event.user.id")),
        SummaryField("application", ("$.event.applicationId",)),
        SummaryField("tenant", ("$.event.tenantId",)),
    ),
    options=FusionAuthOptions,
    configure=configure,
    keyless_by="jwks_url",
)
