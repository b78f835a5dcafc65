"""Meta: Facebook, Instagram, Messenger, WhatsApp."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import SecretReference
from runtime.webhooks.handshakes import Handshake, query_echo
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Prefixed


class MetaOptions(GroupModel):
    """The verify token with which Meta checks the address."""

    verify_token: SecretReference | None = Field(
        None,
        repr=False,
        description="The verify token in the app's settings; without it Meta cannot subscribe.",
        examples=["secret://env/META_VERIFY_TOKEN"],
    )


def _subscription(token: str | None) -> Handshake:
    name = "hub.verify_token"
    return query_echo("hub.challenge", fixed=(("hub.mode", "subscribe"),), token_name=name, token=token)


def _configure(row: Provider, options: MetaOptions) -> Provider:
    return replace(row, handshake=_subscription(options.verify_token))


META = Provider(
    name="meta",
    title="Meta",
    doc="Webhooks of Facebook, Instagram, Messenger and WhatsApp. The secret is the app's secret.",
    doc_url="https://developers.facebook.com/docs/graph-api/webhooks/getting-started",
    scheme=Hmac(header="X-Hub-Signature-256", form=Prefixed("sha256=")),
    handshake=_subscription(None),
    event=("$.entry[0].changes[0].field", "$.object"),
    # Ids are inside the change, elsewhere in every product; each entry has a time.
    delivery_id=(BODY,),
    options=MetaOptions,
    configure=_configure,
    answer=OK,
    summary_fields=(
        SummaryField("object", ("$.object",)),
        SummaryField("from", ("$.entry[0].changes[0].value.messages[0].from", "$.entry[0].messaging[0].sender.id")),
        SummaryField(
            "text", ("$.entry[0].changes[0].value.messages[0].text.body", "$.entry[0].messaging[0].message.text")
        ),
        SummaryField("status", ("$.entry[0].changes[0].value.statuses[0].status",)),
        SummaryField("account", ("$.entry[0].id",)),
    ),
)
