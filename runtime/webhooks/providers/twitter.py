"""X, formerly Twitter."""

from __future__ import annotations

from runtime.webhooks.handshakes.proof import QueryProof
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Prefixed

TWITTER = Provider(
    name="twitter",
    title="X (Twitter)",
    doc="X's Account Activity API. The secret is the app's consumer secret.",
    doc_url="https://developer.x.com/en/docs/x-api/enterprise/account-activity-api/guides/securing-webhooks",
    # The handshake signs short texts for anyone who asks: none of them begins like this.
    scheme=Hmac(
        header="X-Twitter-Webhooks-Signature",
        form=Prefixed("sha256="),
        encoding="base64",
        begins=b"{",
    ),
    handshake=QueryProof(token="crc_token", name="response_token"),  # noqa: S106 - its name
    event=("key:for_user_id,user_has_blocked,apps,users",),
    # Every event contains its own id or time; there is no other id.
    delivery_id=(BODY,),
    answer=OK,
    summary_fields=(
        SummaryField("for", ("$.for_user_id",)),
        SummaryField("post", ("$.tweet_create_events[0].text",)),
        SummaryField("by", ("$.tweet_create_events[0].user.screen_name", "$.follow_events[0].source.screen_name")),
        SummaryField("liked", ("$.favorite_events[0].favorited_status.text",)),
        SummaryField("message", ("$.direct_message_events[0].message_create.message_data.text",)),
    ),
)
