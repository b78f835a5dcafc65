"""Trello."""

from __future__ import annotations

from runtime.webhooks.handshakes.handshake import Present
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac

TRELLO = Provider(
    name="trello",
    title="Trello",
    doc="Changes of a Trello board or card, signed with SHA-1, the only option. It signs the "
    "callback URL too, so `public_url` is needed. The secret is the app's.",
    doc_url="https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks",
    scheme=Hmac(header="X-Trello-Webhook", algorithm="sha1", encoding="base64", payload="{body}{url}"),
    handshake=Present(),
    event=("$.action.type",),
    delivery_id=("$.action.id",),
    answer=OK,
    summary_fields=(
        SummaryField("board", ("$.action.data.board.name", "$.model.name")),
        SummaryField("card", ("$.action.data.card.name",)),
        SummaryField("list", ("$.action.data.listAfter.name", "$.action.data.list.name")),
        SummaryField("from", ("$.action.data.listBefore.name",)),
        SummaryField("text", ("$.action.data.text",)),
        SummaryField("by", ("$.action.memberCreator.fullName",)),
    ),
)
