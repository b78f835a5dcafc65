"""Senders that are not in the table, described by their webhook's options, and the scheme of webhooks made here."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from dslc.blocks.options import Options
from dslc.blocks.template import read_template
from dslc.blocks.values.types import SINGLE, As, Duration, Form, HeaderName, Relation, Url
from runtime.webhooks.keys.jwt_key import FAMILIES
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.content import Compression
from runtime.webhooks.request.payload import json_or_form
from runtime.webhooks.schemes.basic import Basic
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.jwt import Jwt
from runtime.webhooks.schemes.scheme import Scheme
from runtime.webhooks.schemes.signature_header import Fields, PrefixHeader
from runtime.webhooks.schemes.template import Template
from runtime.webhooks.schemes.timestamp import Unit
from runtime.webhooks.schemes.token import QueryToken, Token

Prefix = Annotated[str, Form(r"(?:[!-~][ -~]*)?", "a prefix: printable ASCII that does not begin with a space")]
OneHeader = Annotated[HeaderName, Relation(distinct=True)]
"""A header name that no other option uses."""

EVENT_HEADER: Any = Field(None, description="The header with the name of the event.", examples=["X-Event"])
ID_HEADER: Any = Field(
    None, description="The header with the delivery's id; a repeated id is not run again.", examples=["X-Delivery-Id"]
)

COMPRESSED: Any = Field(
    None,
    description="Accept bodies compressed with gzip or deflate; the sender signs them as they are `sent`, or their "
    "uncompressed `content`.",
    examples=["content"],
)

_PARTS = ("timestamp", "id", "header:", "json:", "body")


def _payload(payload: str) -> str:
    read_template(payload, _PARTS)
    return payload


DuplicateKeys = Literal["refuse", "last"]
DUPLICATE_KEYS: Any = Field(
    "refuse",
    description="What a duplicate key in an object of a body means: the body is refused if anything is read from it, "
    "or the `last` value counts, as most parsers read it.",
    examples=["last"],
)

ACCEPTED: Final = json_or_form("payload", plain=True, last=True)
"""The decoder of bodies that a webhook of a provider with `duplicate_keys` has accepted, whatever its options are."""


def with_decoder(row: Provider, duplicate_keys: DuplicateKeys) -> Provider:
    """Return `row` with the decoder of bodies that arrive."""
    return replace(row, decoder=json_or_form("payload", plain=True, last=duplicate_keys == "last"))


class CustomOptions(Options):
    """The sender's signature: an HMAC in a header."""

    compressed: Compression | None = COMPRESSED
    header: OneHeader = Field("X-Signature-256", description="The header with the signature.")
    prefix: Prefix = Field("", description="The text before the signature in its header.", examples=["sha256="])
    encoding: Literal["hex", "base64"] = Field("hex", description="The encoding of the signature; hex in either case.")
    algorithm: Literal["sha256", "sha512", "sha1"] = Field(
        "sha256", description="The hash function of the HMAC; use `sha1` only for a sender that offers nothing else."
    )
    payload: Annotated[str, AfterValidator(_payload), As("template", choices=_PARTS)] = Field(
        "{body}",
        description="The signed text: a template over `{timestamp}`, `{id}`, `{body}`, headers such as "
        "`{header:X-Request-Id}` and values of the body such as `{json:$.data.id}`.",
        examples=["{timestamp}.{body}"],
    )
    timestamp_header: Annotated[
        HeaderName | None, Relation(needs=("payload",), distinct=True, fills="timestamp", signed_only=True)
    ] = Field(None, description="The header with the time; `payload` must sign it.", examples=["X-Timestamp"])
    timestamp_unit: Annotated[Unit, Relation(needs=("timestamp_header",))] = Field(
        "s", description="How the time is written: Unix seconds, Unix milliseconds, or as in RFC 3339."
    )
    id_header: Annotated[HeaderName | None, Relation(distinct=True, fills="id")] = ID_HEADER
    event_header: OneHeader | None = EVENT_HEADER
    tolerance: Annotated[Duration | None, Relation(needs=("timestamp_header",))] = Field(
        None,
        ge=timedelta(seconds=1),
        le=timedelta(days=1),
        description="How far the timestamp may be from now, before or after; the default is 5m.",
        examples=[timedelta(minutes=5)],
    )
    duplicate_keys: DuplicateKeys = DUPLICATE_KEYS


def _configure_custom(row: Provider, options: CustomOptions) -> Provider:
    """Return the row for `options`."""
    timed = options.timestamp_header is not None
    tolerance = timedelta(minutes=5) if options.tolerance is None else options.tolerance
    scheme = Hmac(
        header=options.header,
        form=PrefixHeader(options.prefix),
        lenient=True,
        last=options.duplicate_keys == "last",
        unit=options.timestamp_unit,
        algorithm=options.algorithm,
        encoding=options.encoding,
        payload=options.payload,
        timestamp_header=options.timestamp_header,
        id_header=options.id_header if "id" in Template(options.payload).fields else None,
        tolerance=tolerance.total_seconds() if timed else None,
    )
    described = replace(row, scheme=scheme, compression=options.compressed)
    return with_identity(with_decoder(described, options.duplicate_keys), options.event_header, options.id_header)


def with_identity(row: Provider, event_header: str | None, id_header: str | None) -> Provider:
    """Return `row` with the event and the delivery's id read from these headers, as far as given."""
    event, delivery_id = ((f"header:{name}",) if name else () for name in (event_header, id_header))
    return replace(row, event=event, delivery_id=delivery_id)


CUSTOM = Provider(
    name="custom",
    title="Webhook",
    doc="Any sender that signs with an HMAC in a header.",
    scheme=Hmac(header="X-Signature-256", lenient=True),
    decoder=ACCEPTED,
    options=CustomOptions,
    configure=_configure_custom,
    signed_by="payload",
    event_by="event_header",
)

SWARMLET = Provider(
    name="swarmlet",
    title="Swarmlet",
    doc="A timestamped HMAC for senders of your own: `X-Swarmlet-Signature: t=…,v1=…` over `{timestamp}.{body}`.",
    scheme=Hmac(header="X-Swarmlet-Signature", form=Fields(), payload="{timestamp}.{body}", tolerance=300),
)


class TokenOptions(Options):
    """The place of the token."""

    header: OneHeader = Field("X-Webhook-Token", description="The header with the token.")
    prefix: Prefix = Field("", description="The text before the token in its header.", examples=["Bearer "])
    parameter: Annotated[
        str | None,
        Form(r"[A-Za-z0-9_.-]{1,64}", "a parameter's name: letters, digits, `_`, `.` and `-`"),
        Relation(excludes=("header", "prefix")),
    ] = Field(
        None,
        description="The parameter of the URL with the token, for a sender that can set no header. Proxies and the "
        "sender may log URLs.",
        examples=["token"],
    )
    id_header: OneHeader | None = ID_HEADER
    event_header: OneHeader | None = EVENT_HEADER
    duplicate_keys: DuplicateKeys = DUPLICATE_KEYS


def _configure_token(row: Provider, options: TokenOptions) -> Provider:
    """Return the row for `options`."""
    scheme: Scheme = Token(header=options.header, prefix=options.prefix)
    if options.parameter is not None:
        scheme = QueryToken(parameter=options.parameter)
    return with_identity(
        with_decoder(replace(row, scheme=scheme), options.duplicate_keys), options.event_header, options.id_header
    )


TOKEN = Provider(
    name="token",
    title="Webhook",
    doc="Any sender with a shared token in a header. Its body is not signed.",
    scheme=Token(header="X-Webhook-Token"),
    decoder=ACCEPTED,
    compression="content",
    options=TokenOptions,
    configure=_configure_token,
    event_by="event_header",
)


class BasicOptions(Options):
    """The reading of bodies."""

    duplicate_keys: DuplicateKeys = DUPLICATE_KEYS


BASIC = Provider(
    name="basic",
    title="Webhook",
    doc="Any sender with basic authentication (RFC 7617); the secret is `name:password`. Its body is not signed.",
    doc_url="https://www.rfc-editor.org/rfc/rfc7617",
    scheme=Basic(),
    compression="content",
    decoder=ACCEPTED,
    options=BasicOptions,
    configure=lambda row, options: with_decoder(row, options.duplicate_keys),
)


Algorithm = Literal[
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]


def as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Algorithms = Annotated[
    tuple[Algorithm, ...], BeforeValidator(as_tuple), SINGLE, Relation(families=FAMILIES), Field(min_length=1)
]
Texts = Annotated[
    tuple[Annotated[str, Form(r"(?s:.+)", "a text of at least one character")], ...], BeforeValidator(as_tuple), SINGLE
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


def _configure_jwt(row: Provider, options: JwtOptions) -> Provider:
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
    return with_identity(with_decoder(described, options.duplicate_keys), options.event_header, options.id_header)


JWT = Provider(
    name="jwt",
    title="Webhook",
    doc="Any sender with a JSON Web Token. The secret is the HMAC key, or a public key as PEM or JWK.",
    doc_url="https://www.rfc-editor.org/rfc/rfc7519",
    scheme=Jwt(),
    decoder=ACCEPTED,
    options=JwtOptions,
    configure=_configure_jwt,
    event_by="event_header",
    signed_by="body_claim",
    keyless_by="jwks_url",
)
