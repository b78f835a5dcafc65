"""Figma."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.static_response import StaticAnswer
from runtime.webhooks.schemes.token import BodyToken, without

FIGMA = Provider(
    name="figma",
    title="Figma",
    doc="Figma's webhooks (V2). It does not sign: the secret is the webhook's passcode, which is in the body.",
    doc_url="https://developers.figma.com/docs/rest-api/webhooks-security/",
    scheme=BodyToken(field="passcode"),
    decoder=without("passcode"),
    answer=StaticAnswer(200),
    event=("$.event_type",),
    delivery_id=("$.webhook_id + $.timestamp",),
    summary_fields=(
        SummaryField("file", ("$.file_name", "$.file_key")),
        SummaryField("by", ("$.triggered_by.handle",)),
        SummaryField("comment", ("$.comment[0].text",)),
        SummaryField("description", ("$.description",)),
        SummaryField("at", ("$.timestamp",)),
    ),
)
