"""A sender that is not in the table, described by its webhook's options."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from dslc.blocks.options import Options
from dslc.blocks.template import read_template
from dslc.blocks.values.types import As, Duration, Form, HeaderName, Relation
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.payload import json_or_form
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Prefixed
from runtime.webhooks.schemes.template import Template

Prefix = Annotated[str, Form(r"(?:[!-~][ -~]*)?", "a prefix: printable ASCII that does not begin with a space")]
OneHeader = Annotated[HeaderName, Relation(distinct=True)]
"""A header name that no other option uses."""

EVENT_HEADER: Any = Field(None, description="The header with the name of the event.", examples=["X-Event"])
ID_HEADER: Any = Field(
    None,
    description="The header with the delivery's id; a repeated id is not run again.",
    examples=["X-Delivery-Id"],
)

_PARTS = ("timestamp", "id", "body")


def _payload(payload: str) -> str:
    read_template(payload, _PARTS)
    return payload


class CustomOptions(Options):
    """The sender's signature: an HMAC in a header."""

    header: OneHeader = Field("X-Signature-256", description="The header with the signature.")
    prefix: Prefix = Field("", description="The text before the signature in its header.", examples=["sha256="])
    encoding: Literal["hex", "base64"] = Field("hex", description="The encoding of the signature; hex is lower case.")
    algorithm: Literal["sha256", "sha512", "sha1"] = Field(
        "sha256", description="The hash function of the HMAC; use `sha1` only for a sender that offers nothing else."
    )
    payload: Annotated[str, AfterValidator(_payload), As("template", choices=_PARTS)] = Field(
        "{body}",
        description="The signed text: a template over `{timestamp}`, `{id}` and `{body}`.",
        examples=["{timestamp}.{body}"],
    )
    timestamp_header: Annotated[
        HeaderName | None, Relation(needs=("payload",), distinct=True, fills="timestamp", signed_only=True)
    ] = Field(
        None,
        description="The header with the Unix time in seconds; `payload` must sign it.",
        examples=["X-Timestamp"],
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


def configure(row: Provider, options: CustomOptions) -> Provider:
    """Return the row for `options`."""
    timed = options.timestamp_header is not None
    tolerance = timedelta(minutes=5) if options.tolerance is None else options.tolerance
    scheme = Hmac(
        header=options.header,
        form=Prefixed(options.prefix),
        algorithm=options.algorithm,
        encoding=options.encoding,
        payload=options.payload,
        timestamp_header=options.timestamp_header,
        id_header=options.id_header if "id" in Template(options.payload).fields else None,
        tolerance=tolerance.total_seconds() if timed else None,
    )
    return identified(replace(row, scheme=scheme), options.event_header, options.id_header)


def identified(row: Provider, event_header: str | None, id_header: str | None) -> Provider:
    """Return `row` with the event and the delivery's id read from these headers, as far as given."""
    event, delivery_id = ((f"header:{name}",) if name else () for name in (event_header, id_header))
    return replace(row, event=event, delivery_id=delivery_id)


CUSTOM = Provider(
    name="custom",
    title="Webhook",
    doc="Any sender that signs with an HMAC in a header.",
    scheme=Hmac(header="X-Signature-256"),
    decoder=json_or_form("payload", plain=True),
    options=CustomOptions,
    configure=configure,
    signed_by="payload",
    event_by="event_header",
)
