"""A sender that the table does not know, described by its webhook's own options."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dslc.blocks import Duration, Relation
from dslc.blocks.block import Group
from runtime.webhooks.hmac_scheme import Hmac
from runtime.webhooks.payload import json_or_form
from runtime.webhooks.provider import Provider
from runtime.webhooks.signature_header import Prefixed
from runtime.webhooks.template import Template

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_FIELDS = {"timestamp", "id", "body"}


def _header_name(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError("not a header's name (RFC 9110 section 5.6.2)")
    return name


def valid_prefix(prefix: str) -> str:
    if not (prefix.isascii() and prefix.isprintable()) or prefix != prefix.lstrip():
        raise ValueError("a prefix is printable ASCII and does not begin with a space")
    return prefix


def _payload(payload: str) -> str:
    fields = set(Template(payload).fields)
    if fields - _FIELDS:
        raise ValueError(
            f"{{{min(fields - _FIELDS)}}} can't stand here; what can is {{timestamp}}, {{id}} and {{body}}"
        )
    return payload


HeaderName = Annotated[str, AfterValidator(_header_name)]


class CustomOptions(Group):
    """How the sender signs: an HMAC in a header."""

    header: HeaderName = Field("X-Signature-256", description="The header that holds the signature.")
    prefix: Annotated[str, AfterValidator(valid_prefix)] = Field(
        "", description="What stands before the signature in its header.", examples=["sha256="]
    )
    encoding: Literal["hex", "base64"] = Field("hex", description="How the signature is written; hex is lower case.")
    algorithm: Literal["sha256", "sha512", "sha1"] = Field(
        "sha256", description="The hash under the HMAC; `sha1` only for a sender that has nothing else."
    )
    payload: Annotated[str, AfterValidator(_payload)] = Field(
        "{body}",
        description="What is signed: a template over `{timestamp}`, `{id}` and `{body}`.",
        examples=["{timestamp}.{body}"],
    )
    timestamp_header: HeaderName | None = Field(
        None,
        description="The header that holds the Unix time in seconds; `payload` must sign it.",
        examples=["X-Timestamp"],
    )
    id_header: HeaderName | None = Field(
        None,
        description="The header that holds the delivery's id; a repeated id is not delivered again.",
        examples=["X-Delivery-Id"],
    )
    event_header: HeaderName | None = Field(
        None, description="The header that holds the event's type.", examples=["X-Event"]
    )
    tolerance: Annotated[Duration | None, Relation(needs=("timestamp_header",))] = Field(
        None,
        description="How far the timestamp may be from now, either way: at most 1d, and 5m unless set.",
        examples=[timedelta(minutes=5)],
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        fields = Template(self.payload).fields
        if "timestamp" in fields and self.timestamp_header is None:
            raise ValueError("payload signs {timestamp}: say in timestamp_header which header holds it")
        if "timestamp" not in fields and self.timestamp_header is not None:
            raise ValueError("payload must sign {timestamp}, or timestamp_header proves nothing")
        if "id" in fields and self.id_header is None:
            raise ValueError("payload signs {id}: say in id_header which header holds it")
        if self.tolerance is not None and self.timestamp_header is None:
            raise ValueError("tolerance needs a timestamp_header")
        if self.tolerance is not None and not timedelta(0) < self.tolerance <= timedelta(days=1):
            raise ValueError("tolerance is more than nothing and at most 1d")
        names = [
            name.lower()
            for name in (self.header, self.timestamp_header, self.id_header, self.event_header)
            if name is not None
        ]
        if len(set(names)) < len(names):
            raise ValueError("two of the headers have the same name")
        return self


def configure(row: Provider, options: CustomOptions) -> Provider:
    """The row that `options` describe."""
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
    return replace(
        row,
        scheme=scheme,
        event=(f"header:{options.event_header}",) if options.event_header else (),
        delivery_id=(f"header:{options.id_header}",) if options.id_header else (),
    )


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
