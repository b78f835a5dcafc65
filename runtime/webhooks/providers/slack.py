"""Slack."""

from __future__ import annotations

from runtime.webhooks.handshakes.echo import JsonEcho
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.payload import json_or_form
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Prefixed

SLACK = Provider(
    name="slack",
    title="Slack",
    doc="Slack's Events API, slash commands and interactivity.",
    doc_url="https://docs.slack.dev/authentication/verifying-requests-from-slack/",
    scheme=Hmac(
        header="X-Slack-Signature",
        form=Prefixed("v0="),
        payload="v0:{timestamp}:{body}",
        timestamp_header="X-Slack-Request-Timestamp",
        tolerance=300,
    ),
    # Events are JSON; an interaction is a form whose `payload` is JSON; a slash command is a plain form.
    decoder=json_or_form("payload", plain=True),
    handshake=JsonEcho(where="$.type", equals="url_verification", echo="$.challenge"),
    event=("$.event.type", "$.type", "$.command"),
    delivery_id=("$.event_id",),
    answer=OK,
    summary_fields=(
        SummaryField("team", ("$.team_id", "$.team.id")),
        SummaryField("channel", ("$.event.channel", "$.channel_id", "$.channel.id", "$.event.item.channel")),
        SummaryField("user", ("$.event.user", "$.user_id", "$.user.id")),
        SummaryField("command", ("$.command",)),
        SummaryField("text", ("$.event.text", "$.text", "$.message.text")),
    ),
)
