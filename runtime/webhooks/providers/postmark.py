"""Postmark."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.schemes.basic import Basic

POSTMARK = Provider(
    name="postmark",
    title="Postmark",
    doc="Postmark's webhooks. It does not sign: the secret is the `name:password` of the webhook's basic auth.",
    doc_url="https://postmarkapp.com/developer/webhooks/webhooks-overview",
    scheme=Basic(),
    event=("$.RecordType",),
    # MessageID is the same for the message's delivery, opening and every click; each of them has its own time.
    delivery_id=(BODY,),
    summary_fields=(
        SummaryField("recipient", ("$.Recipient", "$.Email", "$.To")),
        SummaryField("subject", ("$.Subject",)),
        SummaryField("type", ("$.Type",)),
        SummaryField("description", ("$.Description", "$.Details")),
        SummaryField("message", ("$.MessageID",)),
        SummaryField("tag", ("$.Tag",)),
    ),
)
