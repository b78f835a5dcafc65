"""Typeform."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
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
    facts=(
        Fact("form", ("$.form_response.definition.title", "$.form_response.form_id")),
        Fact("submitted", ("$.form_response.submitted_at",)),
        Fact("answer", ("$.form_response.answers[0].text", "$.form_response.answers[0].choice.label")),
        Fact("email", ("$.form_response.answers[*].email",)),
        Fact("score", ("$.form_response.calculated.score",)),
    ),
)
