"""Typeform."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Prefixed

TYPEFORM = Provider(
    name="typeform",
    title="Typeform",
    doc="Answers to a Typeform.",
    doc_url="https://www.typeform.com/developers/webhooks/secure-your-webhooks/",
    scheme=Hmac(header="Typeform-Signature", form=Prefixed("sha256="), encoding="base64"),
    event=("$.event_type",),
    delivery_id=("$.event_id",),
    summary_fields=(
        SummaryField("form", ("$.form_response.definition.title", "$.form_response.form_id")),
        SummaryField("submitted", ("$.form_response.submitted_at",)),
        SummaryField("answer", ("$.form_response.answers[0].text", "$.form_response.answers[0].choice.label")),
        SummaryField("email", ("$.form_response.answers[*].email",)),
        SummaryField("score", ("$.form_response.calculated.score",)),
    ),
)
