"""A sender that sends a shared token in a header."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from dslc.blocks.options import Options
from dslc.blocks.values.types import Form, Relation
from runtime.webhooks.providers.custom import (
    ACCEPTED,
    DUPLICATE_KEYS,
    EVENT_HEADER,
    ID_HEADER,
    DuplicateKeys,
    OneHeader,
    Prefix,
    decoded,
    identified,
)
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.schemes.scheme import Scheme
from runtime.webhooks.schemes.token import QueryToken, Token


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


def configure(row: Provider, options: TokenOptions) -> Provider:
    """Return the row for `options`."""
    scheme: Scheme = Token(header=options.header, prefix=options.prefix)
    if options.parameter is not None:
        scheme = QueryToken(parameter=options.parameter)
    return identified(
        decoded(replace(row, scheme=scheme), options.duplicate_keys), options.event_header, options.id_header
    )


TOKEN = Provider(
    name="token",
    title="Webhook",
    doc="Any sender with a shared token in a header. Its body is not signed.",
    scheme=Token(header="X-Webhook-Token"),
    decoder=ACCEPTED,
    compression="content",
    options=TokenOptions,
    configure=configure,
    event_by="event_header",
)
