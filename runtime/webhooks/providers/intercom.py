"""Intercom."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
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
    facts=(
        Fact("kind", ("$.data.item.type",)),
        Fact("id", ("$.data.item.id",)),
        Fact("subject", ("$.data.item.source.subject", "$.data.item.title")),
        Fact("state", ("$.data.item.state",)),
        Fact("from", ("$.data.item.source.author.email", "$.data.item.email", "$.data.item.user.email")),
        Fact("app", ("$.app_id",)),
    ),
)
