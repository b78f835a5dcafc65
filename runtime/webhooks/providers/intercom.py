"""Intercom."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Prefixed

INTERCOM = Provider(
    name="intercom",
    title="Intercom",
    doc="Notifications of an Intercom app, signed with SHA-1, the only option. The secret is the client secret.",
    doc_url="https://developers.intercom.com/docs/webhooks",
    scheme=Hmac(header="X-Hub-Signature", form=Prefixed("sha1="), algorithm="sha1"),
    event=("$.topic",),
    delivery_id=("$.id",),
    answer=OK,
    summary_fields=(
        SummaryField("kind", ("$.data.item.type",)),
        SummaryField("id", ("$.data.item.id",)),
        SummaryField("subject", ("$.data.item.source.subject", "$.data.item.title")),
        SummaryField("state", ("$.data.item.state",)),
        SummaryField("from", ("$.data.item.source.author.email", "$.data.item.email", "$.data.item.user.email")),
        SummaryField("app", ("$.app_id",)),
    ),
)
