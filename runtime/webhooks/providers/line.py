"""LINE."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac

LINE = Provider(
    name="line",
    title="LINE",
    doc="The Messaging API of LINE. The secret is the channel's secret.",
    doc_url="https://developers.line.biz/en/reference/messaging-api/#signature-validation",
    scheme=Hmac(header="X-Line-Signature", encoding="base64"),
    event=("$.events[0].type",),
    delivery_id=("$.events[*].webhookEventId",),
    answer=OK,
    summary_fields=(
        SummaryField("text", ("$.events[0].message.text",)),
        SummaryField("kind", ("$.events[0].message.type",)),
        SummaryField("user", ("$.events[0].source.userId",)),
        SummaryField("group", ("$.events[0].source.groupId", "$.events[0].source.roomId")),
        SummaryField("postback", ("$.events[0].postback.data",)),
    ),
)
