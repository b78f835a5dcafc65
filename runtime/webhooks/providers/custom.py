"""Senders that are not in the table: one described by its webhook's options, and the scheme of webhooks made here."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from dslc.blocks.options import Options
from dslc.blocks.template import read_template
from dslc.blocks.values.types import As, Duration, Form, HeaderName, Relation
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.content import Compression
from runtime.webhooks.request.payload import json_or_form
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Fields, Prefixed
from runtime.webhooks.schemes.template import Template
from runtime.webhooks.schemes.timestamp import Unit

Prefix = Annotated[str, Form(r"(?:[!-~][ -~]*)?", "a prefix: printable ASCII that does not begin with a space")]
OneHeader = Annotated[HeaderName, Relation(distinct=True)]
"""A header name that no other option uses."""

EVENT_HEADER: Any = Field(None, description="The header with the name of the event.", examples=["X-Event"])
ID_HEADER: Any = Field(
    None,
    description="The header with the delivery's id; a repeated id is not run again.",
    examples=["X-Delivery-Id"],
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


def decoded(row: Provider, duplicate_keys: DuplicateKeys) -> Provider:
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
    ] = Field(
        None,
        description="The header with the time; `payload` must sign it.",
        examples=["X-Timestamp"],
    )
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


def configure(row: Provider, options: CustomOptions) -> Provider:
    """Return the row for `options`."""
    timed = options.timestamp_header is not None
    tolerance = timedelta(minutes=5) if options.tolerance is None else options.tolerance
    scheme = Hmac(
        header=options.header,
        form=Prefixed(options.prefix),
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
    return identified(decoded(described, options.duplicate_keys), options.event_header, options.id_header)


def identified(row: Provider, event_header: str | None, id_header: str | None) -> Provider:
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
    configure=configure,
    signed_by="payload",
    event_by="event_header",
)

SWARMLET = Provider(
    name="swarmlet",
    title="Swarmlet",
    doc="A timestamped HMAC for senders of your own: `X-Swarmlet-Signature: t=…,v1=…` over `{timestamp}.{body}`.",
    scheme=Hmac(header="X-Swarmlet-Signature", form=Fields(), payload="{timestamp}.{body}", tolerance=300),
)
