"""A sender that authenticates with a JSON Web Token."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dslc.blocks.options import Options
from dslc.blocks.values.types import SINGLE, Duration, Form, Relation, Url
from runtime.webhooks.keys.jwt_key import FAMILIES
from runtime.webhooks.providers.custom import (
    ACCEPTED,
    DUPLICATE_KEYS,
    EVENT_HEADER,
    ID_HEADER,
    DuplicateKeys,
    OneHeader,
    decoded,
    identified,
)
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.schemes.jwt import Jwt

Algorithm = Literal[
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]


def listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Algorithms = Annotated[
    tuple[Algorithm, ...], BeforeValidator(listed), SINGLE, Relation(families=FAMILIES), Field(min_length=1)
]
Texts = Annotated[
    tuple[Annotated[str, Form(r"(?s:.+)", "a text of at least one character")], ...], BeforeValidator(listed), SINGLE
]
JwksUrl = Annotated[
    Url,
    # Otherwise an attacker on the network could substitute keys.
    Form(r"https://.*", "an https URL: over http, an attacker could replace the keys"),
]
PUBLIC = Relation(refuses=(("algorithms", FAMILIES[0]),))
"""Algorithms for published keys: never HMAC."""


class JwtOptions(Options):
    """The accepted tokens, and their required claims."""

    header: OneHeader = Field(
        "Authorization", description="The header with the token: after `Bearer ` in `Authorization`, else alone."
    )
    algorithms: Algorithms = Field(
        ("RS256",), description="The algorithms of tokens: one or several, all of one family.", examples=[["ES256"]]
    )
    audience: Texts = Field(
        (),
        description="The audiences of tokens; a token must name one of them. Without it a token must have no audience.",
    )
    issuer: Texts = Field(
        (), description="The issuers of tokens; a token must name one of them.", examples=[["https://id.example.org"]]
    )
    jwks_url: Annotated[JwksUrl | None, PUBLIC] = Field(
        None,
        description="The https URL of the sender's keys (a JWK set); the webhook then has no `secret`.",
        examples=["https://id.example.org/.well-known/jwks.json"],
    )
    leeway: Duration = Field(timedelta(0), le=timedelta(minutes=5), description="The allowed difference of the clocks.")
    max_age: Duration | None = Field(
        None,
        ge=timedelta(seconds=1),
        le=timedelta(days=1),
        description="How far a token's `iat` may be from now. A token is then accepted once for each body, and "
        "needs no `exp`.",
        examples=[timedelta(minutes=5)],
    )
    body_claim: str | None = Field(
        None,
        description="The claim with the body's SHA-256, in hexadecimal or base64. Without it the body is not signed.",
        examples=["request_body_sha256"],
    )
    event_header: OneHeader | None = EVENT_HEADER
    id_header: OneHeader | None = ID_HEADER
    duplicate_keys: DuplicateKeys = DUPLICATE_KEYS


def configure(row: Provider, options: JwtOptions) -> Provider:
    """Return the row for `options`."""
    scheme = Jwt(
        header=options.header,
        algorithms=options.algorithms,
        issuer=options.issuer,
        audience=options.audience,
        jwks_url=options.jwks_url,
        expires=options.max_age is None,
        leeway=options.leeway.total_seconds(),
        tolerance=None if options.max_age is None else options.max_age.total_seconds(),
        body_claim=options.body_claim,
    )
    described = replace(row, scheme=scheme, keyless=options.jwks_url is not None)
    return identified(decoded(described, options.duplicate_keys), options.event_header, options.id_header)


JWT = Provider(
    name="jwt",
    title="Webhook",
    doc="Any sender with a JSON Web Token. The secret is the HMAC key, or a public key as PEM or JWK.",
    doc_url="https://www.rfc-editor.org/rfc/rfc7519",
    scheme=Jwt(),
    decoder=ACCEPTED,
    options=JwtOptions,
    configure=configure,
    event_by="event_header",
    signed_by="body_claim",
    keyless_by="jwks_url",
)
